// SPDX-License-Identifier: GPL-2.0
/* u4r_badinput: the connections that cases work on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "badinput.h"

/* A completion that takes longer than this is missing. Generous: an emulated
 * CPU, and retry times of some tenths of a second. */
#define COMPLETION_MS	10000
#define QUIET_MS	100

static uint32_t or_default(uint32_t value, uint32_t preset)
{
	return value ? value : preset;
}

static void make_end(struct pair *pair, int end, const struct pair_options *o)
{
	struct device dev = *pair->dev;
	struct ibv_qp_init_attr init = {
		.qp_type = o->type ? o->type : IBV_QPT_RC,
		.cap = {
			.max_send_wr = or_default(o->send_wr, 16),
			.max_recv_wr = or_default(o->receive_wr, 16),
			.max_send_sge = or_default(o->sges, 4),
			.max_recv_sge = or_default(o->sges, 4),
			.max_inline_data = o->inline_bytes,
		},
	};

	if (end == 1 && o->target_pd)
		dev.pd = o->target_pd;
	pair->cq[end] = ibv_create_cq(dev.ctx, or_default(o->cqes, 64), NULL, NULL, 0);
	if (!pair->cq[end])
		die(errno, "create_cq");
	init.send_cq = init.recv_cq = pair->cq[end];
	pair->qp[end] = qp_make(&dev, &init);
	pair->buffer[end] = aligned_alloc(4096, BUFFER_SIZE);
	if (!pair->buffer[end])
		die(ENOMEM, "buffer");
	memset(pair->buffer[end], 'a' + end, BUFFER_SIZE);
	pair->mr[end] = mr_make(&dev, pair->buffer[end], BUFFER_SIZE);
	pair->address[end] = qp_address(&dev, pair->qp[end]);
}

void pair_connect(struct pair *pair, const struct qp_timing *timing)
{
	int end, err;

	for (end = 0; end < 2; end++) {
		err = qp_connect(pair->dev, pair->qp[end], pair->address[end].psn,
				 &pair->address[!end], timing);
		if (err)
			die(err, "modify_qp to RTS");
	}
}

void pair_open(struct pair *pair, struct device *dev, const struct pair_options *options)
{
	static const struct pair_options none;
	static const struct qp_timing zero;
	const struct pair_options *o = options ? options : &none;
	struct ibv_qp_attr rights = { .qp_access_flags = o->target_access };
	int err;

	*pair = (struct pair){ .dev = dev };
	make_end(pair, 0, o);
	make_end(pair, 1, o);
	if (o->unconnected)
		return;
	pair_connect(pair, memcmp(&o->timing, &zero, sizeof(zero)) ? &o->timing :
		     &default_timing);
	if (!o->target_access)
		return;
	err = ibv_modify_qp(pair->qp[1], &rights, IBV_QP_ACCESS_FLAGS);
	if (err)
		die(err, "modify_qp of access flags");
}

void pair_close(struct pair *pair)
{
	int end;

	for (end = 0; end < 2; end++) {
		if (pair->qp[end])
			expect(!ibv_destroy_qp(pair->qp[end]));
		if (pair->mr[end])
			expect(!ibv_dereg_mr(pair->mr[end]));
		expect(!ibv_destroy_cq(pair->cq[end]));
		free(pair->buffer[end]);
	}
}

void pair_works(struct pair *pair)
{
	struct request send = {
		.opcode = IBV_WR_SEND, .local = (uintptr_t)pair->buffer[0], .length = 10000,
		.lkey = pair->mr[0]->lkey,
	};
	int64_t bad;

	pattern_fill(7, 0, pair->buffer[0], send.length);
	expect(!post_receive_at(pair->qp[1], 1, pair->buffer[1], BUFFER_SIZE, pair->mr[1]->lkey));
	expect(!post_request(pair->qp[0], &send));
	expect_status(pair->cq[0], IBV_WC_SUCCESS);
	expect_status(pair->cq[1], IBV_WC_SUCCESS);
	bad = pattern_differs(7, 0, pair->buffer[1], send.length);
	expect(bad == -1, "byte %d differs", (int)bad);
}

void others_work(struct device *dev)
{
	struct pair pair;

	pair_open(&pair, dev, NULL);
	pair_works(&pair);
	pair_close(&pair);
}

int post_request(struct ibv_qp *qp, const struct request *r)
{
	struct ibv_sge sge = { .addr = r->local, .length = r->length, .lkey = r->lkey };
	struct ibv_send_wr wr = {
		.wr_id = r->wr_id, .opcode = r->opcode, .sg_list = &sge,
		.num_sge = r->length ? 1 : 0, .send_flags = r->flags | IBV_SEND_SIGNALED,
	}, *bad = NULL;
	int err;

	if (r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = r->remote;
		wr.wr.atomic.rkey = r->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = r->remote;
		wr.wr.rdma.rkey = r->rkey;
	}
	err = ibv_post_send(qp, &wr, &bad);
	expect(err >= 0, "post_send answers %d, not an errno", err);
	expect(!err || bad == &wr, "bad_wr does not point at the bad request");
	return err;
}

int post_receive_at(struct ibv_qp *qp, uint64_t wr_id, void *at, uint32_t length,
		    uint32_t lkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)at, .length = length, .lkey = lkey };
	struct ibv_recv_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = length ? 1 : 0,
	}, *bad = NULL;
	int err = ibv_post_recv(qp, &wr, &bad);

	expect(err >= 0, "post_recv answers %d, not an errno", err);
	expect(!err || bad == &wr, "bad_wr does not point at the bad request");
	return err;
}

struct ibv_wc expect_status_at(const char *file, int line, struct ibv_cq *cq,
			       enum ibv_wc_status status)
{
	struct ibv_wc wc = { .status = -1 };
	bool came = wait_completion(cq, &wc, COMPLETION_MS);

	expect_at(file, line, came && wc.status == status, ibv_wc_status_str(status), "%s",
		  came ? ibv_wc_status_str(wc.status) : "no completion came");
	return wc;
}

void expect_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);

	expect(!err && attr.qp_state == state, "error %d, state %d, wanted %d", err,
	       attr.qp_state, state);
}

void expect_quiet(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	bool came = wait_completion(cq, &wc, QUIET_MS);

	expect(!came, "completion of %d with %s", (int)wc.wr_id, ibv_wc_status_str(wc.status));
}
