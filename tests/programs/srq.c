// SPDX-License-Identifier: GPL-2.0
/*
 * u4r_srq: many queue pairs, one shared receive queue at each end, data both ways,
 * every byte compared; then the events and refusals of such a queue.
 *
 *   u4r_srq [-d DEVICE] [-n MESSAGES] [HOST]     without HOST it listens
 *
 * Message k of queue pair q is known from (side, q, k) alone, so the receiver can
 * tell whether the right message came by the right queue pair into an entry whole.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define QPS		8
/* Fewer than the queue pairs can have under way: some messages meet no entry. */
#define ENTRIES		16
#define DEPTH		4
#define MAX_SIZE	20000
#define PATIENCE_MS	60000

struct side {
	struct device dev;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp[QPS];
	uint8_t *in, *out;
	struct ibv_mr *in_mr, *out_mr;
	uint32_t sent[QPS], completed[QPS], received[QPS];
};

static void check(bool holds, const char *what)
{
	if (!holds)
		die(0, "expected: %s", what);
}
#define CHECK(condition)	check(condition, #condition)

static uint64_t key_of(int side, uint32_t qp, uint32_t k)
{
	return mix((uint64_t)side << 60 | (uint64_t)qp << 32 | k);
}

static uint32_t length_of(uint64_t key)
{
	return key % (MAX_SIZE + 1);
}

static void post_entry(struct side *s, uint32_t slot)
{
	/* Two pieces, cut at an odd place. */
	uint64_t at = (uintptr_t)s->in + (uint64_t)slot * MAX_SIZE;
	uint32_t cut = 1000 + 7 * slot;
	struct ibv_sge sge[2] = {
		{ at, cut, s->in_mr->lkey }, { at + cut, MAX_SIZE - cut, s->in_mr->lkey },
	};
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = sge, .num_sge = 2 }, *bad;
	int err = ibv_post_srq_recv(s->srq, &wr, &bad);

	if (err)
		die(err, "post_srq_recv");
}

static void make(struct side *s, const char *device)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = ENTRIES, .max_sge = 2 } };
	uint32_t i;

	device_open(&s->dev, device, -1);
	s->send_cq = ibv_create_cq(s->dev.ctx, QPS * DEPTH, NULL, NULL, 0);
	s->recv_cq = ibv_create_cq(s->dev.ctx, 2 * ENTRIES, NULL, NULL, 0);
	s->srq = ibv_create_srq(s->dev.pd, &srq);
	if (!s->send_cq || !s->recv_cq || !s->srq)
		die(errno, "queues");
	CHECK(srq.attr.max_wr >= ENTRIES && srq.attr.max_sge >= 2);
	s->in = malloc(ENTRIES * MAX_SIZE);
	s->out = malloc(QPS * DEPTH * MAX_SIZE);
	if (!s->in || !s->out)
		die(ENOMEM, "buffers");
	s->in_mr = mr_make(&s->dev, s->in, ENTRIES * MAX_SIZE);
	s->out_mr = mr_make(&s->dev, s->out, QPS * DEPTH * MAX_SIZE);
	for (i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = s->send_cq, .recv_cq = s->recv_cq, .srq = s->srq,
			.qp_type = IBV_QPT_RC, .cap = { DEPTH, 0, 1, 0, 0 },
		};

		s->qp[i] = qp_make(&s->dev, &init);
	}
}

static void connect_all(struct side *s, int fd)
{
	struct qp_address ours[QPS], theirs[QPS];
	int i, err;

	for (i = 0; i < QPS; i++)
		ours[i] = qp_address(&s->dev, s->qp[i]);
	exchange(fd, ours, theirs, sizeof(ours));
	for (i = 0; i < QPS; i++) {
		err = qp_connect(&s->dev, s->qp[i], ours[i].psn, &theirs[i], &default_timing);
		if (err)
			die(err, "modify_qp to RTS");
	}
}

static void post_message(struct side *s, int side, uint32_t q)
{
	uint32_t k = s->sent[q]++;
	uint64_t key = key_of(side, q, k);
	uint8_t *at = s->out + (size_t)(q * DEPTH + k % DEPTH) * MAX_SIZE;
	struct ibv_sge sge = { (uintptr_t)at, length_of(key), s->out_mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = q, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(k),
	}, *bad;
	int err;

	pattern_fill(key, 0, at, sge.length);
	err = ibv_post_send(s->qp[q], &wr, &bad);
	if (err)
		die(err, "post_send");
}

static void take_received(struct side *s, int peer, const struct ibv_wc *wc)
{
	uint32_t q, k;
	uint64_t key;

	if (wc->status)
		die(0, "receive: %s", ibv_wc_status_str(wc->status));
	for (q = 0; q < QPS && s->qp[q]->qp_num != wc->qp_num; q++)
		;
	CHECK(q < QPS);
	k = s->received[q]++;
	key = key_of(peer, q, k);
	CHECK(ntohl(wc->imm_data) == k && wc->byte_len == length_of(key));
	CHECK(pattern_differs(key, 0, s->in + wc->wr_id * MAX_SIZE, wc->byte_len) == -1);
	post_entry(s, wc->wr_id);
}

/* Moves messages each way until there have been `count` on every queue pair. */
static void move(struct side *s, int side, uint32_t count)
{
	uint64_t until = now_ns() + PATIENCE_MS * 1000000ull;
	uint32_t q, left = 0;
	struct ibv_wc wc;

	for (q = 0; q < QPS; q++)
		left += 2 * count - s->completed[q] - s->received[q];
	while (left) {
		for (q = 0; q < QPS; q++)
			while (s->sent[q] < count && s->sent[q] - s->completed[q] < DEPTH)
				post_message(s, side, q);
		if (ibv_poll_cq(s->recv_cq, 1, &wc) == 1) {
			take_received(s, !side, &wc);
			left--;
		} else if (ibv_poll_cq(s->send_cq, 1, &wc) == 1) {
			if (wc.status)
				die(0, "send: %s", ibv_wc_status_str(wc.status));
			s->completed[wc.wr_id]++;
			left--;
		} else {
			usleep(50);
		}
		if (now_ns() > until)
			die(0, "%u completions are missing", left);
	}
}

static enum ibv_event_type next_event(struct side *s, void **element)
{
	struct pollfd waiting = { .fd = s->dev.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&waiting, 1, 10000) != 1 || ibv_get_async_event(s->dev.ctx, &event))
		die(errno, "no event");
	*element = event.element.srq;
	ibv_ack_async_event(&event);
	return event.event_type;
}

static bool quiet(struct side *s)
{
	struct pollfd waiting = { .fd = s->dev.ctx->async_fd, .events = POLLIN };

	return poll(&waiting, 1, 200) == 0;
}

/* Back to as many as there are. */
static void shrink(struct side *s)
{
	struct ibv_srq_attr attr = { .max_wr = ENTRIES };

	CHECK(!ibv_modify_srq(s->srq, &attr, IBV_SRQ_MAX_WR));
	CHECK(!ibv_query_srq(s->srq, &attr) && attr.max_wr == ENTRIES);
}

/* All entries are posted: a limit is told once, when the entries fall below it. */
static void limit_event(struct side *s, int side, int fd)
{
	struct ibv_srq_attr attr = { .srq_limit = ENTRIES - 2 };
	struct ibv_wc wc;
	void *element;
	int i;

	CHECK(!ibv_modify_srq(s->srq, &attr, IBV_SRQ_LIMIT));
	CHECK(!ibv_query_srq(s->srq, &attr) && attr.srq_limit == ENTRIES - 2);
	CHECK(attr.max_wr >= ENTRIES && attr.max_sge >= 2);
	CHECK(quiet(s));
	barrier(fd);
	for (i = 0; i < 3; i++)
		post_message(s, side, i);
	for (i = 0; i < 3; i++) {
		CHECK(wait_completion(s->send_cq, &wc, PATIENCE_MS) && !wc.status);
		CHECK(wait_completion(s->recv_cq, &wc, PATIENCE_MS) && !wc.status);
	}
	CHECK(next_event(s, &element) == IBV_EVENT_SRQ_LIMIT_REACHED && element == s->srq);
	CHECK(quiet(s));
	CHECK(!ibv_query_srq(s->srq, &attr) && attr.srq_limit == 0);
	attr.srq_limit = attr.max_wr + 1;
	CHECK(ibv_modify_srq(s->srq, &attr, IBV_SRQ_LIMIT) == EINVAL);
}

/* Entries that wait are carried over, those that have no room are not forgotten. */
static void resize(struct side *s)
{
	struct ibv_srq_attr attr = { .max_wr = 2 };

	CHECK(ibv_modify_srq(s->srq, &attr, IBV_SRQ_MAX_WR) == EINVAL);
	attr.max_wr = s->dev.attr.max_srq_wr + 1;
	CHECK(ibv_modify_srq(s->srq, &attr, IBV_SRQ_MAX_WR) == EINVAL);
	attr.max_wr = 5 * ENTRIES;
	CHECK(!ibv_modify_srq(s->srq, &attr, IBV_SRQ_MAX_WR));
	CHECK(!ibv_query_srq(s->srq, &attr) && attr.max_wr >= 5 * ENTRIES);
}

/* A queue pair in error leaves the entries to the others, and says so once. */
static void last_entry_event(struct side *s)
{
	struct ibv_wc wc;
	void *element;

	CHECK(!qp_to_state(s->qp[7], IBV_QPS_ERR));
	CHECK(next_event(s, &element) == IBV_EVENT_QP_LAST_WQE_REACHED && element == s->qp[7]);
	CHECK(quiet(s) && !ibv_poll_cq(s->recv_cq, 1, &wc));
}

static void refusals(struct side *s)
{
	struct ibv_recv_wr wr = { .num_sge = 3 }, *bad = NULL;
	struct ibv_sge sge[3] = {};
	int i, err;

	wr.sg_list = sge;
	CHECK(ibv_post_srq_recv(s->srq, &wr, &bad) == EINVAL && bad == &wr);
	CHECK(ibv_post_recv(s->qp[0], &wr, &bad) == EINVAL);
	CHECK(ibv_destroy_srq(s->srq) == EBUSY);
	wr.num_sge = 0;
	for (i = 0, err = 0; i <= ENTRIES && !err; i++)
		err = ibv_post_srq_recv(s->srq, &wr, &bad);
	/* Three entries were used up by limit_event. */
	CHECK(err == ENOMEM && i == 4);
}

/* The ring's limits, at the value and one above. */
static void limits(struct side *s)
{
	struct ibv_srq_init_attr init = {};
	const struct ibv_device_attr *a = &s->dev.attr;
	struct ibv_srq *srq;

	init.attr = (struct ibv_srq_attr){ .max_wr = a->max_srq_wr, .max_sge = a->max_srq_sge };
	srq = ibv_create_srq(s->dev.pd, &init);
	CHECK(srq && !ibv_destroy_srq(srq));
	init.attr = (struct ibv_srq_attr){ .max_wr = a->max_srq_wr + 1, .max_sge = 1 };
	CHECK(!ibv_create_srq(s->dev.pd, &init) && errno == EINVAL);
	init.attr = (struct ibv_srq_attr){ .max_wr = 1, .max_sge = a->max_srq_sge + 1 };
	CHECK(!ibv_create_srq(s->dev.pd, &init) && errno == EINVAL);
	init.attr = (struct ibv_srq_attr){ .max_wr = 0, .max_sge = 1 };
	CHECK(!ibv_create_srq(s->dev.pd, &init) && errno == EINVAL);
}

static void end(struct side *s)
{
	int i;

	for (i = 0; i < QPS; i++)
		CHECK(!ibv_destroy_qp(s->qp[i]));
	CHECK(!ibv_destroy_srq(s->srq));
	CHECK(!ibv_destroy_cq(s->send_cq) && !ibv_destroy_cq(s->recv_cq));
	CHECK(!ibv_dereg_mr(s->in_mr) && !ibv_dereg_mr(s->out_mr));
	device_close(&s->dev);
}

int main(int argc, char **argv)
{
	const char *device = NULL, *host;
	static struct side s;
	int letter, fd, count = 200, i;

	while ((letter = getopt(argc, argv, "d:n:")) != -1) {
		if (letter == 'd')
			device = optarg;
		else if (letter == 'n' && atoi(optarg) > 0)
			count = atoi(optarg);
		else
			die(0, "usage: u4r_srq [-d DEVICE] [-n MESSAGES] [HOST]");
	}
	host = argv[optind];
	alarm(100);
	make(&s, device);
	fd = bootstrap(host, 18515, 60);
	connect_all(&s, fd);
	for (i = 0; i < ENTRIES; i++)
		post_entry(&s, i);
	barrier(fd);
	move(&s, !!host, count);
	barrier(fd);
	resize(&s);
	barrier(fd);
	/* In the new ring, whose entries come round only later. */
	move(&s, !!host, 2 * count);
	barrier(fd);
	shrink(&s);
	barrier(fd);
	printf("%d messages each way on %d queue pairs, every byte compared\n", 2 * count, QPS);
	barrier(fd);
	limit_event(&s, !!host, fd);
	barrier(fd);
	last_entry_event(&s);
	refusals(&s);
	limits(&s);
	barrier(fd);
	end(&s);
	puts("PASS");
	return 0;
}
