// SPDX-License-Identifier: GPL-2.0
/* u4r_badinput: flags of requests that order or announce: fence, solicited, inline. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "badinput.h"

/* A SEND with fence sends what the READ before it has brought: without the fence it
 * would send what was in the buffer when it was posted. */
void fence(struct device *dev)
{
	struct pair pair;
	struct request read, send;
	int round;

	pair_open(&pair, dev, NULL);
	read = (struct request){
		.opcode = IBV_WR_RDMA_READ, .local = (uintptr_t)pair.buffer[0], .length = 30000,
		.lkey = pair.mr[0]->lkey, .remote = (uintptr_t)pair.buffer[1],
		.rkey = pair.mr[1]->rkey,
	};
	send = (struct request){
		.opcode = IBV_WR_SEND, .local = read.local, .length = 30000, .lkey = read.lkey,
		.flags = IBV_SEND_FENCE,
	};
	for (round = 0; round < 20; round++) {
		pattern_fill(100 + round, 0, pair.buffer[1], 30000);
		memset(pair.buffer[0], 0, 30000);
		expect(!post_receive_at(pair.qp[1], 1, pair.buffer[1] + 32768, 30000,
					pair.mr[1]->lkey));
		expect(!post_request(pair.qp[0], &read));
		expect(!post_request(pair.qp[0], &send));
		expect_status(pair.cq[0], IBV_WC_SUCCESS);
		expect_status(pair.cq[0], IBV_WC_SUCCESS);
		expect_status(pair.cq[1], IBV_WC_SUCCESS);
		expect(pattern_differs(100 + round, 0, pair.buffer[1] + 32768, 30000) == -1,
		       "round %d", round);
	}
	pair_close(&pair);
}

/* Whether the channel has an event within a while; takes it. */
static bool woken(struct ibv_comp_channel *channel, int timeout_ms)
{
	struct pollfd waiting = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&waiting, 1, timeout_ms) != 1 || ibv_get_cq_event(channel, &cq, &context))
		return false;
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void send_one(struct pair *pair, unsigned int flags)
{
	struct request request = {
		.opcode = IBV_WR_SEND, .local = (uintptr_t)pair->buffer[0], .length = 100,
		.lkey = pair->mr[0]->lkey, .flags = flags,
	};

	expect(!post_receive_at(pair->qp[1], 1, pair->buffer[1], 100, pair->mr[1]->lkey));
	expect(!post_request(pair->qp[0], &request));
	expect_status(pair->cq[0], IBV_WC_SUCCESS);
}

/* A queue armed for solicited completions sleeps through others, not through errors. */
void solicited(struct device *dev)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(dev->ctx);
	struct ibv_cq *old;
	struct pair pair;

	if (!channel)
		die(errno, "create_comp_channel");
	pair_open(&pair, dev, &(struct pair_options){ .unconnected = true });
	expect(!ibv_destroy_qp(pair.qp[1]));
	old = pair.cq[1];
	pair.cq[1] = ibv_create_cq(dev->ctx, 16, NULL, channel, 0);
	if (!pair.cq[1])
		die(errno, "create_cq");
	pair.qp[1] = qp_make(dev, &(struct ibv_qp_init_attr){
		.send_cq = pair.cq[1], .recv_cq = pair.cq[1], .qp_type = IBV_QPT_RC,
		.cap = { 8, 8, 1, 1, 0 } });
	pair.address[1] = qp_address(dev, pair.qp[1]);
	pair_connect(&pair, &default_timing);
	expect(!ibv_req_notify_cq(pair.cq[1], 1));
	send_one(&pair, 0);
	expect(!woken(channel, 300), "woken by an ordinary message");
	send_one(&pair, IBV_SEND_SOLICITED);
	expect(woken(channel, 10000), "not woken by a solicited message");
	expect_status(pair.cq[1], IBV_WC_SUCCESS);
	expect_status(pair.cq[1], IBV_WC_SUCCESS);
	expect(!ibv_req_notify_cq(pair.cq[1], 1));
	expect(!post_receive_at(pair.qp[1], 1, pair.buffer[1], 100, pair.mr[1]->lkey));
	expect(!qp_to_state(pair.qp[1], IBV_QPS_ERR));
	expect(woken(channel, 10000), "not woken by an error");
	expect_status(pair.cq[1], IBV_WC_WR_FLUSH_ERR);
	expect(!ibv_destroy_cq(old));
	pair_close(&pair);
	expect(!ibv_destroy_comp_channel(channel));
}

/* Inline data of every length up to the limit are taken when they are posted, with
 * any memory, in any number of pieces; one byte more is refused. */
void inline_data(struct device *dev)
{
	struct pair_options options = { .inline_bytes = 256 };
	static uint8_t data[257];
	struct ibv_sge sge[3];
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 3,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	}, *bad;
	struct pair pair;
	struct ibv_wc wc;
	int length;

	pair_open(&pair, dev, &options);
	for (length = 0; length <= 256; length += length < 20 || length > 240 ? 1 : 13) {
		int third = length / 3;

		pattern_fill(length, 0, data, length);
		sge[0] = (struct ibv_sge){ (uintptr_t)data, third, 0 };
		sge[1] = (struct ibv_sge){ (uintptr_t)data + third, third, 12345 };
		sge[2] = (struct ibv_sge){ (uintptr_t)data + 2 * third, length - 2 * third, 0 };
		expect(!post_receive_at(pair.qp[1], 1, pair.buffer[1], 300, pair.mr[1]->lkey));
		expect(!ibv_post_send(pair.qp[0], &wr, &bad));
		memset(data, 0xee, sizeof(data));
		expect_status(pair.cq[0], IBV_WC_SUCCESS);
		wc = expect_status(pair.cq[1], IBV_WC_SUCCESS);
		expect(wc.byte_len == (uint32_t)length);
		expect(pattern_differs(length, 0, pair.buffer[1], length) == -1, "length %d",
		       length);
	}
	sge[0] = (struct ibv_sge){ (uintptr_t)data, 257, 0 };
	wr.num_sge = 1;
	expect(ibv_post_send(pair.qp[0], &wr, &bad) == EINVAL && bad == &wr);
	pair_works(&pair);
	pair_close(&pair);
}
