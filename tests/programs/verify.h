/* SPDX-License-Identifier: GPL-2.0 */
/*
 * u4r_verify: moves seeded data both ways at once and compares every byte.
 *
 * Both sides compute the same plan from the seed: which operation, how long, at
 * which place, for every message of every queue pair and direction. So nothing
 * about a message has to be told, and all that arrives can be checked.
 *
 * A queue pair has `depth` slots each way. Message k of a direction lies in slot
 * k % depth of the sender; a message that the receiver takes notice of (all but
 * READ) is number r for it and goes to slot r % depth there, by SEND into the
 * receive entry, by WRITE (with a following empty SEND) or by WRITE with
 * immediate. When it has been checked the receiver says so with an empty SEND
 * on a control queue pair, which carries such credits for all the others.
 */
#ifndef U4R_VERIFY_H
#define U4R_VERIFY_H

#include "common.h"

#define MAX_QPS		64
#define MAX_DEPTH	32
#define MAX_PIECES	16
/* Bytes after a message's end that must stay as they were. */
#define GUARD		64
/* Messages start at one of this many bytes in their slot. */
#define MAX_SHIFT	64

enum operation { OP_SEND, OP_WRITE, OP_WRITE_IMM, OP_READ, OP_COUNT };

struct options {
	const char *device, *host;
	int gid_index, port;
	uint64_t seed, bytes;		/* bytes each way, all queue pairs together */
	uint32_t qps, depth, max_size, pieces;
	bool uc, events, use_inline;
	bool ops[OP_COUNT];
	int timeout_s, stall_s;
};

/* One message. */
struct message {
	enum operation op;
	uint32_t length;
	uint32_t shift;		/* of its first byte in the slot; READ: in the source */
	uint64_t key;		/* of its pattern */
};

/* The messages of one direction of one queue pair, in order. */
struct plan {
	const struct options *options;
	uint64_t random, key;
	uint64_t left;		/* bytes still to be planned */
	uint32_t number;	/* of the next message */
};

/* side: 0 for what the listening instance sends, 1 for the other one's. */
void plan_start(struct plan *plan, const struct options *options, int side, uint32_t qp);
/* The next message; false when the plan is at its end. */
bool plan_next(struct plan *plan, struct message *message);
/* The key of the memory that a side offers for READs. */
uint64_t source_key(const struct options *options, int side);

struct totals {
	uint64_t bytes_sent, bytes_received;
	uint64_t sent[OP_COUNT], received;
	double seconds;
};

/* Moves everything. Returns false when a byte, a completion or the clock was
 * wrong; it has said what on stderr then. */
bool verify_run(struct device *dev, const struct options *options, int fd,
		struct totals *totals);

#endif
