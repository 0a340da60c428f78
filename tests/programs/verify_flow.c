// SPDX-License-Identifier: GPL-2.0
/* u4r_verify: posting a flow's messages and comparing what arrives. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "verify_flow.h"

#define INLINE_LIMIT	256

void fail(struct run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("u4r_verify: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	run->failed = true;
}

/* Cuts a message into pieces: each takes half of what is left, the last all of
 * it, so that the cuts fall at odd places. Returns the number of pieces. */
static int cut(struct ibv_sge *sge, uint32_t pieces, const uint8_t *at, uint32_t length,
	       uint32_t lkey)
{
	uint32_t count = 0, part;

	while (length) {
		part = count + 1 == pieces ? length : (length + 1) / 2;
		sge[count++] = (struct ibv_sge){ (uintptr_t)at, part, lkey };
		at += part;
		length -= part;
	}
	return count;
}

static uint8_t *slot(const struct run *run, uint8_t *slots, uint32_t number,
		     const struct message *message)
{
	return slots + run->slot_size * (number % run->options->depth) + message->shift;
}

/* The next message of the peer that takes a receive entry. */
static bool next_noticed(struct plan *plan, struct message *message)
{
	while (plan_next(plan, message))
		if (message->op != OP_READ)
			return true;
	return false;
}

static void post_receive(struct run *run, uint32_t number, const struct message *message)
{
	struct flow *flow = &run->flows[number];
	uint32_t r = flow->receives, room = message->length;
	uint8_t *at = slot(run, flow->in, r, message);
	struct ibv_sge sge[MAX_PIECES];
	struct ibv_recv_wr wr = { .wr_id = wr_id(WR_RECEIVED, number, r), .sg_list = sge }, *bad;
	int err;

	/* Exactly as long as the message, and longer, in turn. */
	if (r % 2)
		room = run->options->max_size;
	if (message->op == OP_SEND)
		wr.num_sge = cut(sge, run->options->pieces, at, room, flow->mr->lkey);
	memset(at + message->length, 0xA5, GUARD);
	err = ibv_post_recv(flow->qp, &wr, &bad);
	if (err)
		fail(run, "post_recv: %s", strerror(err));
	flow->expected[r % run->options->depth] = *message;
	flow->receives++;
}

void flow_post_receives(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];
	struct message message;

	while (!run->failed && flow->receives - flow->checked < run->options->depth &&
	       next_noticed(&flow->receive_plan, &message))
		post_receive(run, number, &message);
}

void post_credit_receive(struct run *run)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id(WR_CREDIT_RECEIVED, 0, 0) }, *bad;
	int err = ibv_post_recv(run->credit_qp, &wr, &bad);

	if (err)
		fail(run, "post_recv of a credit: %s", strerror(err));
}

/* The work requests of one message; returns how many (the last is signaled). */
static int build(struct run *run, struct flow *flow, const struct message *m,
		 struct ibv_sge *sge, struct ibv_send_wr *wr)
{
	uint8_t *at = slot(run, flow->out, flow->posted, m);
	uint64_t remote = flow->peer.slots + m->shift +
		(uint64_t)run->slot_size * (flow->noticed % run->options->depth);

	memset(wr, 0, 2 * sizeof(*wr));
	wr->sg_list = sge;
	wr->num_sge = cut(sge, run->options->pieces, at, m->length, flow->mr->lkey);
	wr->wr.rdma.remote_addr = m->op == OP_READ ? flow->peer.source + m->shift : remote;
	wr->wr.rdma.rkey = m->op == OP_READ ? flow->peer.source_rkey : flow->peer.rkey;
	wr->imm_data = htonl(flow->noticed);
	wr->opcode = m->op == OP_READ ? IBV_WR_RDMA_READ :
		     m->op == OP_WRITE ? IBV_WR_RDMA_WRITE :
		     m->op == OP_WRITE_IMM ? IBV_WR_RDMA_WRITE_WITH_IMM :
		     flow->noticed % 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	if (run->options->use_inline && m->length <= INLINE_LIMIT && m->op != OP_READ)
		wr->send_flags |= IBV_SEND_INLINE;
	if (m->op != OP_WRITE)
		return 1;
	wr->next = wr + 1;
	wr[1].opcode = IBV_WR_SEND_WITH_IMM;
	wr[1].imm_data = wr->imm_data;
	return 2;
}

static void post_message(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];
	const struct message *m = &flow->next;
	uint8_t *at = slot(run, flow->out, flow->posted, m);
	struct ibv_sge sge[MAX_PIECES];
	struct ibv_send_wr wr[2], *bad;
	int count, err;

	if (m->op == OP_READ)
		memset(at, 0x5A, m->length < GUARD ? m->length : GUARD);
	else
		pattern_fill(m->key, 0, at, m->length);
	count = build(run, flow, m, sge, wr);
	wr[0].wr_id = wr[1].wr_id = wr_id(WR_SENT, number, flow->posted);
	wr[count - 1].send_flags |= IBV_SEND_SIGNALED;
	err = ibv_post_send(flow->qp, wr, &bad);
	if (err)
		return fail(run, "post_send: %s", strerror(err));
	/* Inline data has been taken already: what is here now must not be sent. */
	if (wr->send_flags & IBV_SEND_INLINE)
		memset(at, 0xEE, m->length);
	flow->sent[flow->posted % run->options->depth] = *m;
	flow->posted++;
	flow->noticed += m->op != OP_READ;
	flow->has_next = false;
}

void flow_post_sends(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];
	uint32_t depth = run->options->depth;

	while (!run->failed && flow->posted - flow->completed < depth) {
		if (!flow->has_next)
			flow->has_next = plan_next(&flow->send_plan, &flow->next);
		if (!flow->has_next)
			return;
		if (flow->next.op != OP_READ && flow->noticed - flow->credited >= depth)
			return;
		post_message(run, number);
	}
}

/* Credits that find the control queue full are owed until the next round. */
void flow_send_credits(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];
	struct ibv_send_wr wr = {
		.wr_id = wr_id(WR_CREDIT_SENT, number, 0),
		.opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(number << 16 | flow->owed),
	}, *bad;
	int err;

	if (!flow->owed)
		return;
	err = ibv_post_send(run->credit_qp, &wr, &bad);
	if (err == ENOMEM)
		return;
	if (err)
		return fail(run, "post_send of a credit: %s", strerror(err));
	run->credits_in_flight++;
	flow->owed = 0;
}

static void message_sent(struct run *run, uint32_t number, uint32_t k)
{
	struct flow *flow = &run->flows[number];
	const struct message *m = &flow->sent[k % run->options->depth];
	int64_t bad;

	if (k != flow->completed)
		return fail(run, "QP %u: completion of message %u, expected %u", number, k,
			    flow->completed);
	flow->completed++;
	run->totals->sent[m->op]++;
	run->totals->bytes_sent += m->length;
	if (m->op != OP_READ)
		return;
	bad = pattern_differs(source_key(run->options, !run->side), m->shift,
			      slot(run, flow->out, k, m), m->length);
	if (bad >= 0)
		fail(run, "QP %u: READ of %u bytes (message %u): byte %" PRId64 " is wrong",
		     number, m->length, k, bad);
}

static bool right_completion(const struct ibv_wc *wc, const struct message *m, uint32_t r)
{
	bool imm = m->op != OP_SEND || r % 2;
	uint32_t length = m->op == OP_WRITE ? 0 : m->length;

	return wc->opcode == (m->op == OP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) &&
	       wc->byte_len == length && !!(wc->wc_flags & IBV_WC_WITH_IMM) == imm &&
	       (!imm || ntohl(wc->imm_data) == r);
}

static void message_received(struct run *run, uint32_t number, uint32_t r,
			     const struct ibv_wc *wc)
{
	struct flow *flow = &run->flows[number];
	const struct message *m = &flow->expected[r % run->options->depth];
	uint8_t *at = slot(run, flow->in, r, m);
	int64_t bad;
	int i;

	if (r != flow->checked || !right_completion(wc, m, r))
		return fail(run, "QP %u: receive %u (expected %u): opcode %d length %u imm %u, "
			    "wanted operation %d length %u", number, r, flow->checked,
			    wc->opcode, wc->byte_len, ntohl(wc->imm_data), m->op, m->length);
	bad = pattern_differs(m->key, 0, at, m->length);
	if (bad >= 0)
		return fail(run, "QP %u: message %u, operation %d of %u bytes: byte %" PRId64
			    " is wrong", number, r, m->op, m->length, bad);
	for (i = 0; i < GUARD; i++)
		if (at[m->length + i] != 0xA5)
			return fail(run, "QP %u: message %u wrote beyond its end", number, r);
	run->totals->received++;
	run->totals->bytes_received += m->length;
	flow->checked++;
	flow->owed++;
	flow_post_receives(run, number);
}

static void credit_received(struct run *run, const struct ibv_wc *wc)
{
	uint32_t imm = ntohl(wc->imm_data), number = imm >> 16;

	if (number >= run->options->qps)
		return fail(run, "credit for queue pair %u", number);
	run->flows[number].credited += imm & 0xffff;
	post_credit_receive(run);
}

void handle_completion(struct run *run, const struct ibv_wc *wc)
{
	uint32_t number = wc->wr_id >> 32 & 0xffff, which = wc->wr_id;

	if (wc->status != IBV_WC_SUCCESS)
		return fail(run, "QP %u, request kind %u number %u: %s", number,
			    (uint32_t)(wc->wr_id >> 56), which, ibv_wc_status_str(wc->status));
	switch (wc->wr_id >> 56) {
	case WR_SENT:
		return message_sent(run, number, which);
	case WR_RECEIVED:
		return message_received(run, number, which, wc);
	case WR_CREDIT_SENT:
		run->credits_in_flight--;
		return;
	case WR_CREDIT_RECEIVED:
		return credit_received(run, wc);
	default:
		fail(run, "completion with a wr_id that was never posted: %" PRIx64, wc->wr_id);
	}
}

bool flow_done(const struct flow *flow)
{
	return !flow->send_plan.left && !flow->has_next && flow->posted == flow->completed &&
	       flow->noticed == flow->credited && !flow->receive_plan.left &&
	       flow->receives == flow->checked && !flow->owed;
}
