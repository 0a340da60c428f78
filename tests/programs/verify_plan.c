// SPDX-License-Identifier: GPL-2.0
/* u4r_verify's plan: what is sent, as a function of the seed. */
#include "verify.h"

/* A frame carries 4032 bytes: the lengths around one, two and many of them, the
 * ends of the scale, and around powers of two, where page arithmetic goes wrong. */
static const uint32_t boundaries[] = {
	0, 1, 7, 64, 255, 256, 257, 4031, 4032, 4033, 4095, 4096, 4097,
	8063, 8064, 8065, 65535, 65536, 65537, 64 * 4032 - 1, 64 * 4032, 64 * 4032 + 1,
	256 * 4032 - 1, 256 * 4032, 256 * 4032 + 1, 1048576, 8388607, 8388608,
};

uint64_t source_key(const struct options *options, int side)
{
	return mix(mix(options->seed) + 0x5000 + side);
}

void plan_start(struct plan *plan, const struct options *options, int side, uint32_t qp)
{
	*plan = (struct plan){
		.options = options,
		.key = mix(mix(options->seed) + 0x1000 + side * MAX_QPS + qp),
		.left = options->bytes / options->qps,
	};
	plan->random = plan->key;
}

/* Log-uniform, so that short and long ones all come. */
static uint32_t random_length(struct plan *plan)
{
	uint64_t bits = next_random(&plan->random) % 23;

	return next_random(&plan->random) % (2ull << bits);
}

static enum operation pick_operation(struct plan *plan, uint32_t round)
{
	uint32_t i, op = round % OP_COUNT;

	for (i = 0; i < OP_COUNT; i++, op = (op + 1) % OP_COUNT)
		if (plan->options->ops[op])
			break;
	return op;
}

bool plan_next(struct plan *plan, struct message *message)
{
	uint32_t number = plan->number, length;

	if (!plan->left)
		return false;
	plan->number++;
	/* First every boundary with every operation, in turn; then at random. */
	if (number < ARRAY_SIZE(boundaries) * OP_COUNT) {
		length = boundaries[number / OP_COUNT];
		message->op = pick_operation(plan, number);
	} else {
		length = next_random(&plan->random) % 4 ? random_length(plan) :
			 boundaries[next_random(&plan->random) % ARRAY_SIZE(boundaries)];
		message->op = pick_operation(plan, next_random(&plan->random) % OP_COUNT);
	}
	if (length > plan->options->max_size)
		length = plan->options->max_size;
	if (length > plan->left)
		length = plan->left;
	message->length = length;
	message->shift = next_random(&plan->random) % MAX_SHIFT;
	message->key = mix(plan->key + number);
	plan->left -= length;
	return true;
}
