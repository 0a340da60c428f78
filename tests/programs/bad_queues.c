// SPDX-License-Identifier: GPL-2.0
/* u4r_badinput: what the posting and polling functions must answer. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "badinput.h"

static struct request send_of(const struct pair *pair, uint32_t length)
{
	return (struct request){
		.opcode = IBV_WR_SEND, .local = (uintptr_t)pair->buffer[0], .length = length,
		.lkey = pair->mr[0]->lkey,
	};
}

static int receive(struct pair *pair, uint64_t wr_id)
{
	return post_receive_at(pair->qp[1], wr_id, pair->buffer[1], BUFFER_SIZE,
			       pair->mr[1]->lkey);
}

/* One request of `count` one-byte pieces. */
static int post_pieces(struct pair *pair, int count)
{
	struct ibv_sge sge[256];
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = count,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	int i;

	for (i = 0; i < count && i < 256; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)pair->buffer[0] + i, 1,
					   pair->mr[0]->lkey };
	return ibv_post_send(pair->qp[0], &wr, &bad);
}

/* Capacities may be rounded up: what counts is what create_qp answered. */
static struct ibv_qp_cap capacities(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init = {};
	struct ibv_qp_attr attr;

	expect(!ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
	return init.cap;
}

static void refused_entries(struct pair *pair)
{
	struct ibv_qp_cap cap = capacities(pair->qp[0]);
	struct request request = send_of(pair, cap.max_inline_data + 1);
	struct ibv_recv_wr receive = { .num_sge = cap.max_recv_sge + 1 }, *bad;
	struct ibv_sge sge[256] = {};

	request.flags = IBV_SEND_INLINE;
	expect(post_request(pair->qp[0], &request) == EINVAL, "inline data too long");
	request = send_of(pair, 8);
	request.opcode = 200;
	expect(post_request(pair->qp[0], &request) == EINVAL, "unknown opcode");
	request.opcode = IBV_WR_RDMA_READ;
	request.flags = IBV_SEND_INLINE;
	expect(post_request(pair->qp[0], &request) == EINVAL, "inline READ");
	expect(post_pieces(pair, cap.max_send_sge + 1) == EINVAL, "too many pieces to send");
	expect(post_pieces(pair, -1) == EINVAL, "-1 pieces");
	receive.sg_list = sge;
	expect(ibv_post_recv(pair->qp[0], &receive, &bad) == EINVAL, "too many to receive");
	expect(bad == &receive);
	receive.num_sge = -1;
	expect(ibv_post_recv(pair->qp[0], &receive, &bad) == EINVAL, "-1 pieces to receive");
}

static void inline_is_copied(struct pair *pair)
{
	struct request request = send_of(pair, 200);

	/* Inline data needs no registration: the key is not looked at. */
	request.flags = IBV_SEND_INLINE;
	request.lkey = 0xdeadbeef;
	memset(pair->buffer[0], 'i', 200);
	expect(!receive(pair, 1));
	expect(!post_request(pair->qp[0], &request));
	memset(pair->buffer[0], 'x', 200);
	expect_status(pair->cq[0], IBV_WC_SUCCESS);
	expect_status(pair->cq[1], IBV_WC_SUCCESS);
	expect(pair->buffer[1][0] == 'i' && pair->buffer[1][199] == 'i');
}

void bad_entries(struct device *dev)
{
	struct pair_options options = { .inline_bytes = 200, .sges = 3 };
	struct pair pair;

	pair_open(&pair, dev, &options);
	refused_entries(&pair);
	expect_quiet(pair.cq[0]);
	/* None of that has hurt the queue pair. */
	pair_works(&pair);
	inline_is_copied(&pair);
	pair_close(&pair);
}

/* Nobody receives, so nothing leaves the send queue. */
void full_queues(struct device *dev)
{
	struct pair_options options = { .send_wr = 8, .receive_wr = 8 };
	struct pair pair;
	struct request send;
	uint32_t i, room;

	pair_open(&pair, dev, &options);
	send = send_of(&pair, 64);
	room = capacities(pair.qp[0]).max_send_wr;
	for (i = 0; i < room; i++)
		expect(!post_request(pair.qp[0], &send), "request %u of %u", i, room);
	expect(post_request(pair.qp[0], &send) == ENOMEM, "send queue overfilled");
	room = capacities(pair.qp[0]).max_recv_wr;
	for (i = 0; i < room; i++)
		expect(!post_receive_at(pair.qp[0], i, NULL, 0, 0), "receive %u", i);
	expect(post_receive_at(pair.qp[0], i, NULL, 0, 0) == ENOMEM, "receive queue overfilled");
	/* And it flows again when the other side receives. */
	room = capacities(pair.qp[0]).max_send_wr;
	for (i = 0; i < room; i++)
		expect(!receive(&pair, i), "receive %u of %u", i, room);
	for (i = 0; i < room; i++) {
		expect_status(pair.cq[0], IBV_WC_SUCCESS);
		expect_status(pair.cq[1], IBV_WC_SUCCESS);
	}
	pair_close(&pair);
}

void bad_states(struct device *dev)
{
	struct pair_options options = { .unconnected = true };
	struct pair pair;
	struct request send;

	pair_open(&pair, dev, &options);
	send = send_of(&pair, 8);
	expect(post_request(pair.qp[0], &send) == EINVAL, "post_send in INIT");
	expect(!receive(&pair, 1), "post_recv in INIT is legal");
	expect(qp_to_state(pair.qp[0], IBV_QPS_RTS) == EINVAL, "INIT to RTS");
	expect_state(pair.qp[0], IBV_QPS_INIT);
	expect(!qp_to_state(pair.qp[0], IBV_QPS_RESET));
	expect(post_receive_at(pair.qp[0], 1, NULL, 0, 0) == EINVAL, "post_recv in RESET");
	expect(post_request(pair.qp[0], &send) == EINVAL, "post_send in RESET");
	pair_close(&pair);
}

/* Of a chain, those before the bad one are posted and bad_wr names the bad one. */
void bad_wr_pointer(struct device *dev)
{
	struct pair_options options = { .sges = 2 };
	struct ibv_send_wr wr[4] = {}, *bad = NULL;
	struct ibv_recv_wr rwr[3] = {}, *rbad = NULL;
	struct ibv_sge sge[256] = {};
	struct pair pair;
	int i;

	pair_open(&pair, dev, &options);
	for (i = 0; i < 3; i++)
		rwr[i] = (struct ibv_recv_wr){ .wr_id = i, .next = i < 2 ? &rwr[i + 1] : NULL };
	rwr[2].sg_list = sge;
	rwr[2].num_sge = capacities(pair.qp[1]).max_recv_sge + 1;
	expect(ibv_post_recv(pair.qp[1], rwr, &rbad) == EINVAL);
	expect(rbad == &rwr[2]);
	for (i = 0; i < 4; i++)
		wr[i] = (struct ibv_send_wr){
			.wr_id = i, .opcode = i == 2 ? 200 : IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED, .next = i < 3 ? &wr[i + 1] : NULL,
		};
	expect(ibv_post_send(pair.qp[0], wr, &bad) == EINVAL);
	expect(bad == &wr[2]);
	for (i = 0; i < 2; i++) {
		expect(expect_status(pair.cq[0], IBV_WC_SUCCESS).wr_id == (uint64_t)i);
		expect(expect_status(pair.cq[1], IBV_WC_SUCCESS).wr_id == (uint64_t)i);
	}
	expect_quiet(pair.cq[0]);
	pair_close(&pair);
}

/* Everything posted comes back, in order, signaled or not, and what is posted
 * afterwards does too. */
void flush_order(struct device *dev)
{
	struct pair pair;
	struct ibv_wc wc;
	struct request send;
	int i;

	pair_open(&pair, dev, NULL);
	send = send_of(&pair, 64);
	for (i = 0; i < 8; i++) {
		send.wr_id = i;
		expect(!post_request(pair.qp[0], &send));
		expect(!post_receive_at(pair.qp[0], 100 + i, NULL, 0, 0));
	}
	expect(!qp_to_state(pair.qp[0], IBV_QPS_ERR));
	send.wr_id = 8;
	expect(!post_request(pair.qp[0], &send), "post_send in ERR is legal");
	expect(!post_receive_at(pair.qp[0], 108, NULL, 0, 0), "post_recv in ERR is legal");
	for (i = 0; i < 18; i++) {
		static uint64_t next[2];

		if (!i)
			next[0] = next[1] = 0;
		wc = expect_status(pair.cq[0], IBV_WC_WR_FLUSH_ERR);
		expect(wc.wr_id % 100 == next[wc.wr_id / 100 % 2]++, "out of order: %d",
		       (int)wc.wr_id);
	}
	expect_quiet(pair.cq[0]);
	/* RESET forgets it all, and the queue pair can be used again. */
	expect(!qp_to_state(pair.qp[0], IBV_QPS_RESET));
	pair_close(&pair);
	others_work(dev);
}

static bool next_event(struct device *dev, struct ibv_async_event *event)
{
	struct pollfd waiting = { .fd = dev->ctx->async_fd, .events = POLLIN };

	expect(poll(&waiting, 1, 5000) == 1, "no event");
	return waiting.revents & POLLIN && !ibv_get_async_event(dev->ctx, event);
}

/* More completions than the queue holds: those that fit are there, then an
 * error instead of silence, and an event. */
void cq_overrun(struct device *dev)
{
	struct pair_options options = { .cqes = 4, .send_wr = 64, .receive_wr = 64 };
	struct ibv_async_event event;
	struct request send;
	struct pair pair;
	int i, room, got = 0;
	struct ibv_wc wc;

	pair_open(&pair, dev, &options);
	room = pair.cq[0]->cqe;
	if (room >= 60)
		die(0, "a queue of 4 has %d entries", room);
	send = send_of(&pair, 0);
	for (i = 0; i < room + 1; i++) {
		expect(!receive(&pair, i));
		expect(!post_request(pair.qp[0], &send));
		/* The other end's queue is emptied, only end 0's overruns. */
		expect(wait_completion(pair.cq[1], &wc, 5000));
	}
	if (next_event(dev, &event)) {
		expect(event.event_type == IBV_EVENT_CQ_ERR, "event %d", event.event_type);
		expect(event.element.cq == pair.cq[0]);
		ibv_ack_async_event(&event);
	}
	while (got <= room && ibv_poll_cq(pair.cq[0], 1, &wc) > 0)
		got++;
	expect(got == room, "%d completions of %d", got, room);
	for (i = 0; i < 1000 && (got = ibv_poll_cq(pair.cq[0], 1, &wc)) == 0; i++)
		;
	expect(got < 0, "polling an overrun queue looks like waiting");
	pair_close(&pair);
	others_work(dev);
}

/* Completions of a destroyed queue pair are not reported any more. */
void destroyed_completions(struct device *dev)
{
	struct pair pair, other;
	struct ibv_wc wc;

	pair_open(&pair, dev, NULL);
	pair_open(&other, dev, NULL);
	expect(!post_receive_at(pair.qp[0], 1, NULL, 0, 0));
	expect(!qp_to_state(pair.qp[0], IBV_QPS_ERR));
	expect(!ibv_destroy_qp(pair.qp[0]));
	pair.qp[0] = NULL;
	expect(!wait_completion(pair.cq[0], &wc, 100));
	pair_works(&other);
	pair_close(&other);
	pair_close(&pair);
}
