// SPDX-License-Identifier: GPL-2.0
/* u4r_verify: memory, queue pairs and the exchange of their addresses. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "verify_flow.h"

static uint8_t *map_memory(size_t length)
{
	void *map = mmap(NULL, length, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		die(errno, "%zu bytes of memory", length);
	return map;
}

static void make_source(struct run *run)
{
	size_t length = run->options->max_size + MAX_SHIFT;
	uint8_t *memory = map_memory(length);

	pattern_fill(source_key(run->options, run->side), 0, memory, length);
	run->source = mr_make(run->dev, memory, length);
}

static void make_cq(struct run *run)
{
	const struct options *o = run->options;
	/* Each message: up to two sends, a receive; and a credit each way. */
	int entries = o->qps * o->depth * 5 + 64;

	if (o->events) {
		run->channel = ibv_create_comp_channel(run->dev->ctx);
		if (!run->channel)
			die(errno, "create_comp_channel");
	}
	run->cq = ibv_create_cq(run->dev->ctx, entries, NULL, run->channel, 0);
	if (!run->cq)
		die(errno, "create_cq of %d", entries);
}

static struct ibv_qp *make_qp(struct run *run, enum ibv_qp_type type, uint32_t sends,
			      uint32_t receives, uint32_t pieces, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr init = {
		.send_cq = run->cq, .recv_cq = run->cq, .qp_type = type,
		.cap = {
			.max_send_wr = sends, .max_recv_wr = receives,
			.max_send_sge = pieces, .max_recv_sge = pieces,
			.max_inline_data = inline_bytes,
		},
	};

	return qp_make(run->dev, &init);
}

static void make_flow(struct run *run, uint32_t number)
{
	const struct options *o = run->options;
	struct flow *flow = &run->flows[number];
	size_t half = run->slot_size * o->depth;

	flow->out = map_memory(2 * half);
	flow->in = flow->out + half;
	flow->mr = mr_make(run->dev, flow->out, 2 * half);
	flow->qp = make_qp(run, o->uc ? IBV_QPT_UC : IBV_QPT_RC, 2 * o->depth + 2,
			   o->depth, o->pieces, o->use_inline ? 256 : 0);
	plan_start(&flow->send_plan, o, run->side, number);
	plan_start(&flow->receive_plan, o, !run->side, number);
}

static struct flow_address flow_address(const struct run *run, const struct flow *flow)
{
	return (struct flow_address){
		.qp = qp_address(run->dev, flow->qp),
		.slots = (uintptr_t)flow->in,
		.source = (uintptr_t)run->source->addr,
		.rkey = flow->mr->rkey,
		.source_rkey = run->source->rkey,
	};
}

static void connect_or_die(struct run *run, struct ibv_qp *qp, uint32_t psn,
			   const struct qp_address *peer)
{
	int err = qp_connect(run->dev, qp, psn, peer, &default_timing);

	if (err)
		die(err, "modify_qp to RTS");
}

static void connect_all(struct run *run, int fd)
{
	struct qp_address ours = qp_address(run->dev, run->credit_qp), theirs;
	uint32_t i;

	exchange(fd, &ours, &theirs, sizeof(ours));
	connect_or_die(run, run->credit_qp, ours.psn, &theirs);
	for (i = 0; i < run->options->qps; i++) {
		struct flow *flow = &run->flows[i];
		struct flow_address own = flow_address(run, flow);

		exchange(fd, &own, &flow->peer, sizeof(own));
		connect_or_die(run, flow->qp, own.qp.psn, &flow->peer.qp);
	}
}

void setup(struct run *run, int fd)
{
	const struct options *o = run->options;
	uint32_t i, credits = o->qps * o->depth + 8;

	run->slot_size = (o->max_size + MAX_SHIFT + GUARD + 4095) & ~4095ul;
	make_source(run);
	make_cq(run);
	run->credit_qp = make_qp(run, IBV_QPT_RC, credits, credits, 1, 0);
	for (i = 0; i < credits; i++)
		post_credit_receive(run);
	for (i = 0; i < o->qps; i++) {
		make_flow(run, i);
		flow_post_receives(run, i);
	}
	connect_all(run, fd);
	/* Nobody sends before all receives are posted on both sides. */
	barrier(fd);
}

static void check(int err, const char *what)
{
	if (err)
		die(err, "%s", what);
}

void teardown(struct run *run)
{
	size_t half = run->slot_size * run->options->depth;
	uint32_t i;

	for (i = 0; i < run->options->qps; i++) {
		struct flow *flow = &run->flows[i];

		check(ibv_destroy_qp(flow->qp), "destroy_qp");
		check(ibv_dereg_mr(flow->mr), "dereg_mr");
		munmap(flow->out, 2 * half);
	}
	check(ibv_destroy_qp(run->credit_qp), "destroy_qp");
	check(ibv_dereg_mr(run->source), "dereg_mr");
	check(ibv_destroy_cq(run->cq), "destroy_cq");
	if (run->channel)
		check(ibv_destroy_comp_channel(run->channel), "destroy_comp_channel");
}
