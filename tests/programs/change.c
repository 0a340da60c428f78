// SPDX-License-Identifier: GPL-2.0
/* u4r_badinput: objects that are changed while they are in use. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "badinput.h"

#define PENDING	20

static void post_pending(struct pair *pair, uint64_t first, int count)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .local = (uintptr_t)pair->buffer[0], .length = 100,
		.lkey = pair->mr[0]->lkey, .remote = (uintptr_t)pair->buffer[1],
		.rkey = pair->mr[1]->rkey,
	};
	int i;

	for (i = 0; i < count; i++) {
		request.wr_id = first + i;
		expect(!post_request(pair->qp[0], &request));
	}
}

static void poll_pending(struct pair *pair, uint64_t first, int count)
{
	struct ibv_wc wc;
	int i;

	for (i = 0; i < count; i++) {
		wc = expect_status(pair->cq[0], IBV_WC_SUCCESS);
		expect(wc.wr_id == first + i, "wr_id %d", (int)wc.wr_id);
	}
}

/* Completions that wait are carried over in order, indices wrap in rings of other
 * sizes, and what has no room is refused with the queue as it was. */
void resize_cq(struct device *dev)
{
	static const int sizes[] = { 4, 64, 16, 1, 4096, 8, 2, 32 };
	struct pair_options options = { .send_wr = 64, .cqes = 32 };
	struct pair pair;
	unsigned int i;

	pair_open(&pair, dev, &options);
	post_pending(&pair, 0, PENDING);
	poll_pending(&pair, 0, 1);
	/* All others have completed by then; a smaller queue would overrun otherwise. */
	usleep(500000);
	expect(ibv_resize_cq(pair.cq[0], 2) == EINVAL, "fewer than what waits");
	expect(!ibv_resize_cq(pair.cq[0], 200) && pair.cq[0]->cqe >= 200);
	poll_pending(&pair, 1, PENDING - 1);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		int count = sizes[i] < 16 ? sizes[i] : 16;

		expect(!ibv_resize_cq(pair.cq[0], sizes[i]), "to %d", sizes[i]);
		expect(pair.cq[0]->cqe >= sizes[i]);
		post_pending(&pair, 1000 * i, count);
		poll_pending(&pair, 1000 * i, count);
	}
	expect(!ibv_resize_cq(pair.cq[0], dev->attr.max_cqe));
	expect(ibv_resize_cq(pair.cq[0], dev->attr.max_cqe + 1) == EINVAL);
	expect(ibv_resize_cq(pair.cq[0], 0) == EINVAL);
	expect_quiet(pair.cq[0]);
	pair_works(&pair);
	pair_close(&pair);
}

/* An armed queue that is resized still raises its event. */
void resize_armed_cq(struct device *dev)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(dev->ctx);
	struct ibv_cq *cq, *got = NULL, *own;
	struct pair pair;
	void *context;

	if (!channel)
		die(errno, "create_comp_channel");
	cq = ibv_create_cq(dev->ctx, 8, NULL, channel, 0);
	if (!cq)
		die(errno, "create_cq");
	pair_open(&pair, dev, &(struct pair_options){ .unconnected = true });
	/* End 0 anew, with the queue that has a channel. */
	expect(!ibv_destroy_qp(pair.qp[0]));
	own = pair.cq[0];
	pair.cq[0] = cq;
	pair.qp[0] = qp_make(dev, &(struct ibv_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 } });
	pair.address[0] = qp_address(dev, pair.qp[0]);
	pair_connect(&pair, &default_timing);
	expect(!ibv_req_notify_cq(cq, 0));
	expect(!ibv_resize_cq(cq, 100));
	post_pending(&pair, 7, 1);
	expect(!ibv_get_cq_event(channel, &got, &context) && got == cq);
	ibv_ack_cq_events(cq, 1);
	poll_pending(&pair, 7, 1);
	expect(!ibv_destroy_cq(own));
	pair_close(&pair);
	expect(!ibv_destroy_comp_channel(channel));
}

static void write_once(struct pair *pair, struct ibv_mr *target, uint64_t at,
		       enum ibv_wc_status status)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .local = (uintptr_t)pair->buffer[0],
		.length = 9000, .lkey = pair->mr[0]->lkey, .remote = at, .rkey = target->rkey,
	};

	expect(!post_request(pair->qp[0], &request));
	expect_status(pair->cq[0], status);
}

/* A failed request has ended the connection: the same two begin anew. */
static void again(struct pair *pair)
{
	int end;

	for (end = 0; end < 2; end++) {
		struct ibv_qp_attr attr = {
			.qp_state = IBV_QPS_INIT, .port_num = 1,
			.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		};

		expect(!qp_to_state(pair->qp[end], IBV_QPS_RESET));
		expect(!ibv_modify_qp(pair->qp[end], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
				      IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	}
	pair_connect(pair, &default_timing);
}

/* Rights, domain and memory of a region change under its keys. */
void rereg_mr(struct device *dev)
{
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	size_t length = 5 * 4096;
	uint8_t *first = aligned_alloc(4096, length), *second = aligned_alloc(4096, length);
	struct ibv_pd *other = ibv_alloc_pd(dev->ctx);
	struct ibv_mr *mr;
	struct pair pair;
	uint32_t key;

	if (!first || !second || !other)
		die(ENOMEM, "memory");
	pair_open(&pair, dev, NULL);
	pattern_fill(11, 0, pair.buffer[0], 9000);
	memset(first, 0, length);
	memset(second, 0, length);
	mr = ibv_reg_mr(dev->pd, first, length, 0);
	if (!mr)
		die(errno, "reg_mr");
	key = mr->rkey;
	write_once(&pair, mr, (uintptr_t)first, IBV_WC_REM_ACCESS_ERR);
	again(&pair);
	/* Pages that were pinned for reading are pinned anew for writing. */
	expect(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, rights));
	expect(mr->rkey == key && mr->lkey == key);
	write_once(&pair, mr, (uintptr_t)first + 13, IBV_WC_SUCCESS);
	expect(pattern_differs(11, 0, first + 13, 9000) == -1);
	expect(first[12] == 0 && first[9013] == 0);
	expect(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, second, length, 0));
	write_once(&pair, mr, (uintptr_t)second + 4099, IBV_WC_SUCCESS);
	expect(pattern_differs(11, 0, second + 4099, 9000) == -1);
	write_once(&pair, mr, (uintptr_t)first, IBV_WC_REM_ACCESS_ERR);
	again(&pair);
	expect(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0));
	write_once(&pair, mr, (uintptr_t)second, IBV_WC_REM_ACCESS_ERR);
	/* The domain that it left may go, that which it joined may not. */
	expect(ibv_dealloc_pd(other) == EBUSY);
	/* Memory that is not there: the region stays what it was. */
	expect(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD,
			    dev->pd, (void *)4096, 4096, 0) == IBV_REREG_MR_ERR_CMD);
	expect(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, dev->pd, NULL, 0, 0));
	again(&pair);
	memset(second, 0, length);
	write_once(&pair, mr, (uintptr_t)second, IBV_WC_SUCCESS);
	expect(pattern_differs(11, 0, second, 9000) == -1);
	expect(!ibv_dereg_mr(mr));
	expect(!ibv_dealloc_pd(other));
	pair_close(&pair);
	free(first);
	free(second);
}
