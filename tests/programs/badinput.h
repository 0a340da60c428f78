/* SPDX-License-Identifier: GPL-2.0 */
/*
 * u4r_badinput: what programs do wrong, and the exact answer to each.
 *
 * A case works on connections within one device (both ends in this process); the
 * frames take the same way through the driver as those of a cable. The case
 * "remote" is the one that needs a second host.
 */
#ifndef U4R_BADINPUT_H
#define U4R_BADINPUT_H

#include "common.h"

#define BUFFER_SIZE	65536

/* Both ends of a connection on one device. End 0 is where the test acts from. */
struct pair {
	struct device *dev;
	struct ibv_qp *qp[2];
	struct ibv_cq *cq[2];
	struct ibv_mr *mr[2];
	uint8_t *buffer[2];
	struct qp_address address[2];
};

struct pair_options {
	enum ibv_qp_type type;		/* default RC */
	struct qp_timing timing;	/* default: default_timing */
	uint32_t send_wr, receive_wr;	/* default 16 */
	uint32_t sges, inline_bytes;	/* default 4, 0 */
	uint32_t cqes;			/* default 64 */
	int target_access;		/* end 1's QP access flags; 0: all */
	bool unconnected;		/* leave both in INIT */
	struct ibv_pd *target_pd;	/* default: the device's */
};

/* Everything zero in options (or NULL) means the defaults. */
void pair_open(struct pair *pair, struct device *dev, const struct pair_options *options);
void pair_connect(struct pair *pair, const struct qp_timing *timing);
void pair_close(struct pair *pair);
/* A SEND from 0 to 1 that works: the device has survived. */
void pair_works(struct pair *pair);
/* The same on a fresh connection. */
void others_work(struct device *dev);

/* One request of end 0 with one scatter-gather entry (none if length is 0). */
struct request {
	enum ibv_wr_opcode opcode;
	uint64_t local, remote;
	uint32_t length, lkey, rkey;
	unsigned int flags;
	uint64_t wr_id;
};

/* Signaled whatever its flags say. Returns ibv_post_send's errno. */
int post_request(struct ibv_qp *qp, const struct request *request);
int post_receive_at(struct ibv_qp *qp, uint64_t wr_id, void *at, uint32_t length,
		    uint32_t lkey);

/* Each records a failure of the running case, with the place. */
#define expect(condition, ...)	\
	expect_at(__FILE__, __LINE__, condition, #condition, "" __VA_ARGS__)
void expect_at(const char *file, int line, bool holds, const char *text,
	       const char *format, ...) __attribute__((format(printf, 5, 6)));
#define expect_status(cq, status)	expect_status_at(__FILE__, __LINE__, cq, status)
/* Waits for a completion and compares its status; returns it. */
struct ibv_wc expect_status_at(const char *file, int line, struct ibv_cq *cq,
			       enum ibv_wc_status status);
void expect_state(struct ibv_qp *qp, enum ibv_qp_state state);
/* No completion for a while. */
void expect_quiet(struct ibv_cq *cq);
/* The running case does not apply here. */
void skip(const char *why);

/* The cases, by file. */
void bad_remote_keys(struct device *dev);
void bad_local_keys(struct device *dev);
void deregister_early(struct device *dev);

void bad_entries(struct device *dev);
void full_queues(struct device *dev);
void bad_states(struct device *dev);
void bad_wr_pointer(struct device *dev);
void flush_order(struct device *dev);
void cq_overrun(struct device *dev);
void destroyed_completions(struct device *dev);

void too_long(struct device *dev);
void receiver_not_ready(struct device *dev);
void peer_gone(struct device *dev);
void unreliable(struct device *dev);
void atomics(struct device *dev);

void bad_send_ring(struct device *dev);
void bad_receive_ring(struct device *dev);
void bad_completion_ring(struct device *dev);

void limits(struct device *dev);
void object_counts(struct device *dev);
void longest_message(struct device *dev);
void absent(struct device *dev);

void resize_cq(struct device *dev);
void resize_armed_cq(struct device *dev);
void rereg_mr(struct device *dev);
void windows(struct device *dev);
void dmabuf(struct device *dev);
void fence(struct device *dev);
void solicited(struct device *dev);
void inline_data(struct device *dev);

/* Two hosts: host NULL listens. */
void remote(struct device *dev, const char *host, int port);

#endif
