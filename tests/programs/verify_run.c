// SPDX-License-Identifier: GPL-2.0
/* u4r_verify's loop: post what can be posted, handle what has completed. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "verify_flow.h"

#define BATCH	32

static bool all_done(const struct run *run)
{
	uint32_t i;

	for (i = 0; i < run->options->qps; i++)
		if (!flow_done(&run->flows[i]))
			return false;
	return !run->credits_in_flight;
}

static void say_where(struct run *run)
{
	uint32_t i;

	for (i = 0; i < run->options->qps; i++) {
		struct flow *f = &run->flows[i];

		fprintf(stderr, "QP %u: posted %u completed %u; noticed %u credited %u; "
			"receives %u checked %u\n", i, f->posted, f->completed, f->noticed,
			f->credited, f->receives, f->checked);
	}
}

/* Handles what there is. Returns the number of completions. */
static int drain(struct run *run)
{
	struct ibv_wc wc[BATCH];
	int got = ibv_poll_cq(run->cq, BATCH, wc), i;

	if (got < 0)
		fail(run, "poll_cq answers %d", got);
	for (i = 0; i < got && !run->failed; i++)
		handle_completion(run, &wc[i]);
	if (got > 0)
		run->last_progress = now_ns();
	return got;
}

/* Sleeps until the queue has an event, a second at most. The queue is armed, so
 * it has to be looked at once more before this is called. */
static void wait_for_event(struct run *run)
{
	struct pollfd waiting = { .fd = run->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&waiting, 1, 1000) <= 0)
		return;
	if (ibv_get_cq_event(run->channel, &cq, &context))
		return fail(run, "get_cq_event failed: errno %d", errno);
	ibv_ack_cq_events(cq, 1);
}

static void idle(struct run *run)
{
	int err;

	if (!run->options->events) {
		sched_yield();
		return;
	}
	err = ibv_req_notify_cq(run->cq, 0);
	if (err)
		return fail(run, "req_notify_cq: errno %d", err);
	if (!drain(run))
		wait_for_event(run);
}

static void loop(struct run *run)
{
	uint32_t i;

	run->last_progress = now_ns();
	while (!run->failed && !all_done(run)) {
		for (i = 0; i < run->options->qps; i++) {
			flow_send_credits(run, i);
			flow_post_sends(run, i);
		}
		if (drain(run))
			continue;
		if (now_ns() - run->last_progress > run->options->stall_s * 1000000000ull) {
			fail(run, "no completion for %d s", run->options->stall_s);
			say_where(run);
			return;
		}
		idle(run);
	}
}

bool verify_run(struct device *dev, const struct options *options, int fd,
		struct totals *totals)
{
	struct run *run = calloc(1, sizeof(*run));
	uint64_t start;
	bool passed;

	if (!run)
		die(ENOMEM, "no memory");
	*run = (struct run){
		.dev = dev, .options = options, .totals = totals, .side = options->host != NULL,
	};
	setup(run, fd);
	start = now_ns();
	loop(run);
	totals->seconds = (now_ns() - start) / 1e9;
	passed = !run->failed;
	if (passed) {
		/* The peer may still be waiting for our answers. */
		barrier(fd);
		teardown(run);
	}
	free(run);
	return passed;
}
