// SPDX-License-Identifier: GPL-2.0
/* u4r_badinput: memory windows of both types, and what they refuse. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "badinput.h"

#define LENGTH	9000
#define FIRST	777	/* offset of what the window shows */

/* A pair whose end 1 owns memory that windows may show. */
struct show {
	struct pair pair;
	struct ibv_mr *mr;
	uint8_t *memory;
};

static void show_open(struct show *s, struct device *dev, int access)
{
	pair_open(&s->pair, dev, NULL);
	s->memory = aligned_alloc(4096, BUFFER_SIZE);
	if (!s->memory)
		die(ENOMEM, "memory");
	memset(s->memory, 0, BUFFER_SIZE);
	s->mr = ibv_reg_mr(dev->pd, s->memory, BUFFER_SIZE, access);
	if (!s->mr)
		die(errno, "reg_mr");
	pattern_fill(21, 0, s->pair.buffer[0], LENGTH);
}

static void show_close(struct show *s)
{
	if (s->mr)
		expect(!ibv_dereg_mr(s->mr));
	pair_close(&s->pair);
	free(s->memory);
}

/* End 1 posts a bind request; returns the key it gives. */
static uint32_t bind2(struct show *s, struct ibv_mw *mw, int access, uint64_t length,
		      enum ibv_wc_status status)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_wc wc;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = s->mr, .addr = (uintptr_t)s->memory + FIRST, .length = length,
		.mw_access_flags = access,
	};
	expect(!ibv_post_send(s->pair.qp[1], &wr, &bad));
	wc = expect_status(s->pair.cq[1], status);
	expect(status || wc.opcode == IBV_WC_BIND_MW);
	if (!status)
		mw->rkey = wr.bind_mw.rkey;
	return wr.bind_mw.rkey;
}

static void access_by(struct show *s, enum ibv_wr_opcode opcode, uint32_t rkey,
		      uint64_t offset, uint32_t length, enum ibv_wc_status status)
{
	struct request request = {
		.opcode = opcode, .local = (uintptr_t)s->pair.buffer[0], .length = length,
		.lkey = s->pair.mr[0]->lkey, .remote = (uintptr_t)s->memory + offset,
		.rkey = rkey,
	};

	expect(!post_request(s->pair.qp[0], &request));
	expect_status(s->pair.cq[0], status);
}

static bool arrived(const struct show *s)
{
	return pattern_differs(21, 0, s->memory + FIRST, LENGTH) == -1;
}

/* What ends the connection comes last in each of these. */
static void type2_shows(struct device *dev, enum ibv_wr_opcode bad, uint64_t offset,
			uint32_t length, int access)
{
	struct ibv_mw *mw = ibv_alloc_mw(dev->pd, IBV_MW_TYPE_2);
	struct show s;
	uint32_t rkey;

	if (!mw)
		die(errno, "alloc_mw");
	show_open(&s, dev, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	rkey = bind2(&s, mw, access, LENGTH, IBV_WC_SUCCESS);
	if (access & IBV_ACCESS_REMOTE_WRITE) {
		access_by(&s, IBV_WR_RDMA_WRITE, rkey, FIRST, LENGTH, IBV_WC_SUCCESS);
		expect(arrived(&s) && !s.memory[FIRST - 1] && !s.memory[FIRST + LENGTH]);
	}
	access_by(&s, bad, rkey, offset, length, IBV_WC_REM_ACCESS_ERR);
	expect(!s.memory[FIRST - 1] && !s.memory[FIRST + LENGTH]);
	expect(!ibv_dealloc_mw(mw));
	show_close(&s);
}

/* A window that was taken back by its owner, by its peer, with its region, or for good. */
static void type2_ends(struct device *dev, int how)
{
	struct ibv_mw *mw = ibv_alloc_mw(dev->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;
	struct show s;
	uint32_t rkey;

	if (!mw)
		die(errno, "alloc_mw");
	show_open(&s, dev, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	rkey = bind2(&s, mw, IBV_ACCESS_REMOTE_WRITE, LENGTH, IBV_WC_SUCCESS);
	wr.invalidate_rkey = rkey;
	if (how == 0) {
		wr.opcode = IBV_WR_LOCAL_INV;
		expect(!ibv_post_send(s.pair.qp[1], &wr, &bad));
		wc = expect_status(s.pair.cq[1], IBV_WC_SUCCESS);
		expect(wc.opcode == IBV_WC_LOCAL_INV);
		/* Free again: by its next name it may be bound anew. */
		bind2(&s, mw, IBV_ACCESS_REMOTE_WRITE, LENGTH, IBV_WC_SUCCESS);
		access_by(&s, IBV_WR_RDMA_WRITE, mw->rkey, FIRST, LENGTH, IBV_WC_SUCCESS);
		expect(arrived(&s));
	} else if (how == 1) {
		wr.opcode = IBV_WR_SEND_WITH_INV;
		expect(!post_receive_at(s.pair.qp[1], 5, NULL, 0, 0));
		expect(!ibv_post_send(s.pair.qp[0], &wr, &bad));
		expect_status(s.pair.cq[0], IBV_WC_SUCCESS);
		wc = expect_status(s.pair.cq[1], IBV_WC_SUCCESS);
		expect(wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == rkey);
	} else if (how == 2) {
		expect(!ibv_dereg_mr(s.mr));
		s.mr = NULL;
	} else {
		expect(!ibv_dealloc_mw(mw));
		mw = NULL;
	}
	access_by(&s, IBV_WR_RDMA_WRITE, rkey, FIRST, LENGTH, IBV_WC_REM_ACCESS_ERR);
	if (mw)
		expect(!ibv_dealloc_mw(mw));
	show_close(&s);
}

/* Requests that fail at their owner, and leave the window as it was. */
static void refused_binding(struct device *dev, int region_access, int access, uint64_t length)
{
	struct ibv_mw *mw = ibv_alloc_mw(dev->pd, IBV_MW_TYPE_2);
	struct show s;

	if (!mw)
		die(errno, "alloc_mw");
	show_open(&s, dev, region_access);
	bind2(&s, mw, access, length, IBV_WC_MW_BIND_ERR);
	expect_state(s.pair.qp[1], IBV_QPS_ERR);
	expect(!ibv_dealloc_mw(mw));
	show_close(&s);
}

static void type1(struct device *dev)
{
	struct ibv_mw *mw = ibv_alloc_mw(dev->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED };
	struct show s;
	uint32_t first;

	if (!mw)
		die(errno, "alloc_mw");
	show_open(&s, dev, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	bind.bind_info = (struct ibv_mw_bind_info){
		.mr = s.mr, .addr = (uintptr_t)s.memory + FIRST, .length = LENGTH,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	expect(!ibv_bind_mw(s.pair.qp[1], mw, &bind));
	expect_status(s.pair.cq[1], IBV_WC_SUCCESS);
	first = mw->rkey;
	access_by(&s, IBV_WR_RDMA_WRITE, first, FIRST, LENGTH, IBV_WC_SUCCESS);
	expect(arrived(&s));
	/* Bound anew: the old key is worth nothing. */
	expect(!ibv_bind_mw(s.pair.qp[1], mw, &bind) && mw->rkey != first);
	expect_status(s.pair.cq[1], IBV_WC_SUCCESS);
	access_by(&s, IBV_WR_RDMA_WRITE, mw->rkey, FIRST, LENGTH, IBV_WC_SUCCESS);
	access_by(&s, IBV_WR_RDMA_WRITE, first, FIRST, LENGTH, IBV_WC_REM_ACCESS_ERR);
	expect(!ibv_dealloc_mw(mw));
	show_close(&s);
}

static void window_limit(struct device *dev)
{
	struct ibv_mw **mw = calloc(dev->attr.max_mw, sizeof(*mw));
	int count;

	if (!mw)
		die(ENOMEM, "table of windows");
	for (count = 0; count < dev->attr.max_mw; count++)
		if (!(mw[count] = ibv_alloc_mw(dev->pd, IBV_MW_TYPE_2)))
			break;
	expect(count == dev->attr.max_mw, "%d windows", count);
	expect(!ibv_alloc_mw(dev->pd, IBV_MW_TYPE_2) && errno == ENOMEM);
	while (count--)
		expect(!ibv_dealloc_mw(mw[count]));
	free(mw);
}

void windows(struct device *dev)
{
	const int read = IBV_ACCESS_REMOTE_READ, write = IBV_ACCESS_REMOTE_WRITE;
	const int region = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
	int how;

	type2_shows(dev, IBV_WR_RDMA_WRITE, FIRST - 1, 10, write);
	type2_shows(dev, IBV_WR_RDMA_WRITE, FIRST + 1, LENGTH, write);
	type2_shows(dev, IBV_WR_RDMA_READ, FIRST, 10, write);
	type2_shows(dev, IBV_WR_RDMA_WRITE, FIRST, 10, read);
	for (how = 0; how < 4; how++)
		type2_ends(dev, how);
	refused_binding(dev, IBV_ACCESS_LOCAL_WRITE, write, LENGTH);
	refused_binding(dev, IBV_ACCESS_MW_BIND, write, LENGTH);
	refused_binding(dev, region, write, BUFFER_SIZE);
	refused_binding(dev, region, write, 0);
	type1(dev);
	window_limit(dev);
	others_work(dev);
}
