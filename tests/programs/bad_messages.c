// SPDX-License-Identifier: GPL-2.0
/* u4r_badinput: messages that do not fit, receivers that are not there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "badinput.h"

static struct request request_of(const struct pair *pair, enum ibv_wr_opcode opcode,
				 uint32_t length)
{
	return (struct request){
		.opcode = opcode, .local = (uintptr_t)pair->buffer[0], .length = length,
		.lkey = pair->mr[0]->lkey, .remote = (uintptr_t)pair->buffer[1],
		.rkey = pair->mr[1]->rkey,
	};
}

static void longer_than_receive(struct device *dev, uint32_t send, uint32_t receive)
{
	struct pair pair;
	struct request request;
	uint32_t i;

	pair_open(&pair, dev, NULL);
	request = request_of(&pair, IBV_WR_SEND, send);
	expect(!post_receive_at(pair.qp[1], 1, pair.buffer[1], receive, pair.mr[1]->lkey));
	expect(!post_request(pair.qp[0], &request));
	expect_status(pair.cq[1], IBV_WC_LOC_LEN_ERR);
	expect_status(pair.cq[0], IBV_WC_REM_INV_REQ_ERR);
	for (i = receive; i < BUFFER_SIZE && pair.buffer[1][i] == 'b'; i++)
		;
	expect(i == BUFFER_SIZE, "byte %u beyond the receive entry changed", i);
	expect_state(pair.qp[0], IBV_QPS_ERR);
	pair_close(&pair);
}

void too_long(struct device *dev)
{
	longer_than_receive(dev, 1, 0);
	longer_than_receive(dev, 65, 64);
	longer_than_receive(dev, 4033, 4032);
	longer_than_receive(dev, 20000, 10000);
	others_work(dev);
}

void receiver_not_ready(struct device *dev)
{
	struct pair_options options = { .timing = default_timing };
	struct request request;
	struct pair pair;

	/* No patience at all. */
	options.timing.rnr_retry = 0;
	options.timing.min_rnr_timer = 1;
	pair_open(&pair, dev, &options);
	request = request_of(&pair, IBV_WR_SEND, 64);
	expect(!post_request(pair.qp[0], &request));
	expect_status(pair.cq[0], IBV_WC_RNR_RETRY_EXC_ERR);
	expect_state(pair.qp[0], IBV_QPS_ERR);
	pair_close(&pair);

	/* Patience for ever: the receive comes late, the message arrives. */
	options.timing.rnr_retry = 7;
	pair_open(&pair, dev, &options);
	request = request_of(&pair, IBV_WR_SEND, 20000);
	expect(!post_request(pair.qp[0], &request));
	usleep(300000);
	expect_quiet(pair.cq[0]);
	expect(!post_receive_at(pair.qp[1], 1, pair.buffer[1], 20000, pair.mr[1]->lkey));
	expect_status(pair.cq[0], IBV_WC_SUCCESS);
	expect_status(pair.cq[1], IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* The other queue pair does not exist any more: the time-out of verbs, not less
 * and not for ever. timeout 12 is 16.8 ms, twice; the limit is 4T(retry_cnt + 1). */
void peer_gone(struct device *dev)
{
	struct pair_options options = { .timing = default_timing };
	struct request request;
	struct pair pair;
	uint64_t start;

	options.timing.timeout = 12;
	options.timing.retry_cnt = 1;
	pair_open(&pair, dev, &options);
	expect(!ibv_destroy_qp(pair.qp[1]));
	pair.qp[1] = NULL;
	request = request_of(&pair, IBV_WR_SEND, 64);
	start = now_ns();
	expect(!post_request(pair.qp[0], &request));
	expect_status(pair.cq[0], IBV_WC_RETRY_EXC_ERR);
	expect(now_ns() - start > 16000000, "gave up after %d us",
	       (int)((now_ns() - start) / 1000));
	expect_state(pair.qp[0], IBV_QPS_ERR);
	pair_close(&pair);
	others_work(dev);
}

/* A message without a receive entry is lost, and nobody is hurt. */
void unreliable(struct device *dev)
{
	struct pair_options options = { .type = IBV_QPT_UC };
	struct request request;
	struct pair pair;

	pair_open(&pair, dev, &options);
	request = request_of(&pair, IBV_WR_RDMA_READ, 64);
	expect(post_request(pair.qp[0], &request) == EINVAL, "READ on UC");
	request = request_of(&pair, IBV_WR_SEND, 10000);
	expect(!post_request(pair.qp[0], &request));
	expect_status(pair.cq[0], IBV_WC_SUCCESS);
	expect_quiet(pair.cq[1]);
	pair_works(&pair);
	/* A WRITE to a key that does not exist is dropped as well. */
	request = request_of(&pair, IBV_WR_RDMA_WRITE, 64);
	request.rkey ^= 0x5a5a5a00;
	memset(pair.buffer[1], 'b', 64);
	expect(!post_request(pair.qp[0], &request));
	expect_status(pair.cq[0], IBV_WC_SUCCESS);
	usleep(50000);
	expect(pair.buffer[1][0] == 'b');
	pair_close(&pair);
	others_work(dev);
}

static void unaligned_atomic(struct device *dev)
{
	struct request request;
	struct pair pair;

	pair_open(&pair, dev, NULL);
	request = request_of(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	request.remote += 4;
	expect(!post_request(pair.qp[0], &request));
	expect_status(pair.cq[0], IBV_WC_REM_INV_REQ_ERR);
	expect(pair.buffer[1][4] == 'b');
	pair_close(&pair);
}

void atomics(struct device *dev)
{
	struct request request;
	struct pair pair;
	uint64_t value = 40;

	if (dev->attr.atomic_cap == IBV_ATOMIC_NONE)
		return skip("the device has no atomics");
	pair_open(&pair, dev, NULL);
	request = request_of(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	memcpy(pair.buffer[1], &value, 8);
	expect(!post_request(pair.qp[0], &request));
	expect_status(pair.cq[0], IBV_WC_SUCCESS);
	expect(!memcmp(pair.buffer[0], &value, 8), "the old value comes back");
	memcpy(&value, pair.buffer[1], 8);
	expect(value == 41);
	pair_close(&pair);
	unaligned_atomic(dev);
}
