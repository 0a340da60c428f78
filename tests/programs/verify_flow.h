/* SPDX-License-Identifier: GPL-2.0 */
/* u4r_verify's machinery: one flow is one queue pair with its slots. */
#ifndef U4R_VERIFY_FLOW_H
#define U4R_VERIFY_FLOW_H

#include "verify.h"

/* Whose completion it is: bits 63..56 of a wr_id; the flow 47..32, a number 31..0. */
enum wr_kind { WR_SENT = 1, WR_RECEIVED, WR_CREDIT_SENT, WR_CREDIT_RECEIVED };

/* What the other side must know of our memory. */
struct flow_address {
	struct qp_address qp;
	uint64_t slots;
	uint64_t source;
	uint32_t rkey, source_rkey;
};

struct flow {
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *out, *in;		/* depth slots each */
	struct flow_address peer;

	struct plan send_plan;
	struct message sent[MAX_DEPTH];	/* by number % depth */
	struct message next;
	bool has_next;
	uint32_t posted, completed;	/* messages */
	uint32_t noticed, credited;	/* of them, those the peer takes notice of */

	struct plan receive_plan;
	struct message expected[MAX_DEPTH];
	uint32_t receives, checked;	/* entries posted; messages compared */
	uint32_t owed;			/* credits not yet sent to the peer */
};

struct run {
	struct device *dev;
	const struct options *options;
	struct totals *totals;
	int side;
	size_t slot_size;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *source;
	struct ibv_qp *credit_qp;
	uint32_t credits_in_flight;
	struct flow flows[MAX_QPS];
	uint64_t last_progress;		/* ns: when a completion came last */
	bool failed;
};

/* verify_setup.c */
void setup(struct run *run, int fd);
void teardown(struct run *run);

/* verify_flow.c; these set run->failed when something is wrong */
void flow_post_receives(struct run *run, uint32_t number);
void flow_post_sends(struct run *run, uint32_t number);
void flow_send_credits(struct run *run, uint32_t number);
void post_credit_receive(struct run *run);
void handle_completion(struct run *run, const struct ibv_wc *wc);
bool flow_done(const struct flow *flow);
void fail(struct run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static inline uint64_t wr_id(enum wr_kind kind, uint32_t flow, uint32_t number)
{
	return (uint64_t)kind << 56 | (uint64_t)flow << 32 | number;
}

#endif
