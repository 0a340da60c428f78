// SPDX-License-Identifier: GPL-2.0
/*
 * u4r_hold: keeps queue pairs busy until something happens to them, and tells
 * what: the first data, each asynchronous event, and whether every posted request
 * came back.
 *
 * For tests that kill the process, remove the module or pull the cable. It ends
 * by itself once a request has failed and all others have completed too.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define MAX_QPS		64
#define DEPTH		16
#define LENGTH		65536
#define STATUSES	32
/* After the first failure all the others must have come by then. */
#define DRAIN_S		15

struct options {
	const char *device, *host;
	int gid_index, port, qps, seconds;
	bool uc, local, idle;
};

struct hold {
	struct device dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[MAX_QPS];
	int qps;
	uint8_t *memory;
	uint64_t posted, completed, flowing, by_status[STATUSES];
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static void *watch_events(void *argument)
{
	struct hold *hold = argument;
	struct ibv_async_event event;

	while (!ibv_get_async_event(hold->dev.ctx, &event)) {
		printf("event %s\n", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
	return NULL;
}

static int post(struct hold *hold, int number, bool send)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)hold->memory + (send ? 0 : LENGTH), .length = LENGTH,
		.lkey = hold->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = number * 2 + 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_recv_wr rwr = { .wr_id = number * 2, .sg_list = &sge, .num_sge = 1 }, *rbad;
	int err = send ? ibv_post_send(hold->qp[number], &wr, &bad) :
			 ibv_post_recv(hold->qp[number], &rwr, &rbad);

	hold->posted += !err;
	return err;
}

static void make_queues(struct hold *hold, const struct options *o)
{
	struct ibv_qp_init_attr init = {
		.qp_type = o->uc ? IBV_QPT_UC : IBV_QPT_RC,
		.cap = { DEPTH, DEPTH, 1, 1, 0 },
	};
	int i, k;

	hold->qps = o->qps;
	hold->memory = calloc(2, LENGTH);
	if (!hold->memory)
		die(ENOMEM, "memory");
	hold->mr = mr_make(&hold->dev, hold->memory, 2 * LENGTH);
	hold->cq = ibv_create_cq(hold->dev.ctx, 2 * DEPTH * MAX_QPS, NULL, NULL, 0);
	if (!hold->cq)
		die(errno, "create_cq");
	init.send_cq = init.recv_cq = hold->cq;
	for (i = 0; i < hold->qps; i++) {
		hold->qp[i] = qp_make(&hold->dev, &init);
		for (k = 0; k < DEPTH; k++)
			if (post(hold, i, false))
				die(0, "post_recv");
	}
}

static void connect_or_die(struct hold *hold, int number, uint32_t psn,
			   const struct qp_address *peer)
{
	int err = qp_connect(&hold->dev, hold->qp[number], psn, peer, &default_timing);

	if (err)
		die(err, "modify_qp to RTS");
}

/* Queue pairs of this process with each other: 0 with 1, 2 with 3. */
static void connect_locally(struct hold *hold)
{
	struct qp_address address[MAX_QPS];
	int i;

	for (i = 0; i < hold->qps; i++)
		address[i] = qp_address(&hold->dev, hold->qp[i]);
	for (i = 0; i < hold->qps; i++)
		connect_or_die(hold, i, address[i].psn, &address[i ^ 1]);
}

static void connect_remotely(struct hold *hold, const struct options *o)
{
	int i, fd = bootstrap(o->host, o->port, o->seconds);

	for (i = 0; i < hold->qps; i++) {
		struct qp_address ours = qp_address(&hold->dev, hold->qp[i]), theirs;

		exchange(fd, &ours, &theirs, sizeof(ours));
		connect_or_die(hold, i, ours.psn, &theirs);
	}
	barrier(fd);
	close(fd);
}

/* Handles what has completed; returns whether all was well. */
static bool drain(struct hold *hold, bool repost)
{
	struct ibv_wc wc[32];
	bool well = true;
	int i, got = ibv_poll_cq(hold->cq, 32, wc);

	if (got < 0)
		die(0, "poll_cq answers %d", got);
	for (i = 0; i < got; i++) {
		hold->completed++;
		hold->by_status[wc[i].status % STATUSES]++;
		if (wc[i].status == IBV_WC_SUCCESS && !hold->flowing++)
			puts("FLOWING");
		if (wc[i].status != IBV_WC_SUCCESS)
			well = false;
		else if (repost && post(hold, wc[i].wr_id / 2, wc[i].wr_id & 1))
			well = false;
	}
	if (!got)
		usleep(200);
	return well;
}

static void run_traffic(struct hold *hold, const struct options *o)
{
	uint64_t until = now_ns() + o->seconds * 1000000000ull;
	int i, k;

	for (i = 0; i < hold->qps && !o->idle; i++)
		for (k = 0; k < DEPTH; k++)
			post(hold, i, true);
	while (!stop && now_ns() < until && drain(hold, true))
		;
	if (!stop && now_ns() < until)
		return;
	/* Told to end: the queue pairs are flushed by hand. */
	for (i = 0; i < hold->qps; i++)
		qp_to_state(hold->qp[i], IBV_QPS_ERR);
}

static bool all_back(struct hold *hold)
{
	uint64_t until = now_ns() + DRAIN_S * 1000000000ull;

	while (hold->completed < hold->posted && now_ns() < until)
		drain(hold, false);
	return hold->completed == hold->posted;
}

static void report(struct hold *hold, bool drained)
{
	int i;

	for (i = 0; i < STATUSES; i++)
		if (hold->by_status[i])
			printf("status %s: %llu\n", ibv_wc_status_str(i),
			       (unsigned long long)hold->by_status[i]);
	printf("posted %llu completed %llu\n", (unsigned long long)hold->posted,
	       (unsigned long long)hold->completed);
	puts(drained ? "DRAINED" : "STUCK");
}

/* What is posted to a queue pair that has failed: refused with an errno, or
 * flushed; never lost, never a crash. */
static bool posts_afterwards(struct hold *hold)
{
	uint64_t before = hold->posted;
	int i;

	for (i = 0; i < hold->qps; i++) {
		post(hold, i, true);
		post(hold, i, false);
	}
	printf("posted afterwards: %d accepted\n", (int)(hold->posted - before));
	return all_back(hold);
}

static void release(struct hold *hold)
{
	int i, failed = 0;

	for (i = 0; i < hold->qps; i++)
		failed += !!ibv_destroy_qp(hold->qp[i]);
	failed += !!ibv_dereg_mr(hold->mr);
	failed += !!ibv_destroy_cq(hold->cq);
	failed += !!ibv_dealloc_pd(hold->dev.pd);
	/* Without the device these may answer EIO; the objects are gone anyway. */
	printf("released, %d calls failed\n", failed);
}

static struct options parse(int argc, char **argv)
{
	struct options o = { .gid_index = -1, .port = 18517, .qps = 2, .seconds = 120 };
	int letter;

	while ((letter = getopt(argc, argv, "d:x:p:q:t:uli")) != -1) {
		switch (letter) {
		case 'd': o.device = optarg; break;
		case 'x': o.gid_index = atoi(optarg); break;
		case 'p': o.port = atoi(optarg); break;
		case 'q': o.qps = atoi(optarg); break;
		case 't': o.seconds = atoi(optarg); break;
		case 'u': o.uc = true; break;
		case 'l': o.local = true; break;
		case 'i': o.idle = true; break;
		default:
			die(0, "options: -d device -x gid -p port -q count -t seconds -u(c)\n"
			    "  -l(ocal: within this process) -i(dle: receives only) [HOST]");
		}
	}
	if (o.qps < 1 || o.qps > MAX_QPS || (o.local && o.qps % 2))
		die(0, "1 to %d queue pairs, an even number of them with -l", MAX_QPS);
	o.host = argv[optind];
	return o;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct hold hold = {};
	pthread_t watcher;
	bool drained;

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	alarm(o.seconds + 2 * DRAIN_S + 30);
	device_open(&hold.dev, o.device, o.gid_index);
	make_queues(&hold, &o);
	if (o.local)
		connect_locally(&hold);
	else
		connect_remotely(&hold, &o);
	if (pthread_create(&watcher, NULL, watch_events, &hold))
		die(0, "pthread_create");
	puts("READY");
	run_traffic(&hold, &o);
	drained = all_back(&hold);
	report(&hold, drained);
	drained &= posts_afterwards(&hold);
	/* Events of the same happening may come a little later. */
	usleep(500000);
	release(&hold);
	puts(drained ? "PASS" : "FAIL");
	return drained ? 0 : 1;
}
