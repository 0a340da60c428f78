// SPDX-License-Identifier: GPL-2.0
/*
 * u4r_badinput: entries and indices that no provider would write, put straight
 * into the rings that the process shares with the kernel. That queue pair ends
 * in the error state; nothing else is to notice.
 *
 * The rings are found as a hostile program would: in /proc/self/maps, by what
 * is in them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>

#include "badinput.h"
#include "usb4_rdma-abi.h"

#define MAX_MAPS	64
#define MARK		0x4d41524b00000000ull	/* wr_ids of our first entries */

struct ring {
	uint8_t *start, *end;
	uint32_t stride;
};

/* The maps of the device, newest knowledge each time. Returns their number. */
static int find_maps(struct ring *maps)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	int count = 0;

	if (!file)
		die(errno, "/proc/self/maps");
	while (count < MAX_MAPS && fgets(line, sizeof(line), file)) {
		uint64_t start, end;

		if (!strstr(line, "/uverbs") ||
		    sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) != 2)
			continue;
		maps[count++] = (struct ring){ (uint8_t *)start, (uint8_t *)end, 0 };
	}
	fclose(file);
	return count;
}

/* Other drivers have rings of another layout. */
static bool own_device(const struct device *dev)
{
	return !strncmp(ibv_get_device_name(dev->ctx->device), "usb4_rdma", 9);
}

static uint8_t *find_mark(const struct ring *map, uint64_t mark)
{
	uint8_t *at;

	for (at = map->start + U4R_RING_ENTRIES; at + 8 <= map->end; at += 16)
		if (*(uint64_t *)at == mark)
			return at;
	return NULL;
}

/* The ring in which two neighbouring entries start with MARK + first, + second;
 * the distance of the two is its stride. */
static struct ring find_ring(uint32_t first)
{
	struct ring maps[MAX_MAPS];
	int i, count = find_maps(maps);

	for (i = 0; i < count; i++) {
		uint8_t *one = find_mark(&maps[i], MARK + first);
		uint8_t *two = find_mark(&maps[i], MARK + first + 1);

		if (one == maps[i].start + U4R_RING_ENTRIES && two > one) {
			maps[i].stride = two - one;
			return maps[i];
		}
	}
	die(0, "the ring with the marked entries is not mapped");
}

/* The doorbell, as the provider rings it. */
static int doorbell(struct ibv_qp *qp)
{
	struct ib_uverbs_post_send_resp answer;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send cmd;
	} request = {
		.hdr = { IB_USER_VERBS_CMD_POST_SEND, sizeof(request) / 4, sizeof(answer) / 4 },
		.cmd = { .response = (uintptr_t)&answer, .qp_handle = qp->handle,
			 .wqe_size = sizeof(struct ib_uverbs_send_wr) },
	};

	return write(qp->context->cmd_fd, &request, sizeof(request)) < 0 ? errno : 0;
}

/* A pair that has exchanged two marked messages: end 0's send ring and end 1's
 * receive ring are known, and entry 2 is the next of both. */
struct ringed_pair {
	struct pair pair;
	struct ring sq, rq;
};

static void ringed_open(struct ringed_pair *rp, struct device *dev)
{
	struct request send = { .opcode = IBV_WR_SEND, .length = 16 };
	struct pair *pair = &rp->pair;
	int i;

	pair_open(pair, dev, NULL);
	send.local = (uintptr_t)pair->buffer[0];
	send.lkey = pair->mr[0]->lkey;
	for (i = 0; i < 2; i++) {
		send.wr_id = MARK + i;
		expect(!post_receive_at(pair->qp[1], MARK + 100 + i, pair->buffer[1], 4096,
					pair->mr[1]->lkey));
		expect(!post_request(pair->qp[0], &send));
		expect_status(pair->cq[0], IBV_WC_SUCCESS);
		expect_status(pair->cq[1], IBV_WC_SUCCESS);
	}
	rp->sq = find_ring(0);
	rp->rq = find_ring(100);
}

static void set_producer(const struct ring *ring, uint32_t value)
{
	struct u4r_ring_user *user = (void *)ring->start;

	__atomic_store_n(&user->prod, value, __ATOMIC_SEQ_CST);
}

/* End 0 fails somehow, and only it. */
static void expect_error(struct ringed_pair *rp, const char *what)
{
	struct ibv_wc wc;
	bool came = wait_completion(rp->pair.cq[0], &wc, 5000);

	expect(!came || wc.status != IBV_WC_SUCCESS, "%s has succeeded", what);
	expect_state(rp->pair.qp[0], IBV_QPS_ERR);
}

struct send_change {
	const char *what;
	uint8_t opcode, flags, num_sge;
	uint32_t inline_len, length, producer;
	uint64_t address;
};

static const struct send_change send_changes[] = {
	{ .what = "opcode 0", .opcode = 0, .num_sge = 1, .length = 16, .producer = 3 },
	{ .what = "opcode 255", .opcode = 255, .num_sge = 1, .length = 16, .producer = 3 },
	{ .what = "255 pieces", .opcode = U4R_OP_SEND, .num_sge = 255, .length = 16,
	  .producer = 3 },
	{ .what = "4 GiB inline", .opcode = U4R_OP_SEND, .flags = U4R_SF_INLINE,
	  .inline_len = 0xffffffff, .producer = 3 },
	{ .what = "inline beyond the slot", .opcode = U4R_OP_SEND, .flags = U4R_SF_INLINE,
	  .inline_len = 4096, .producer = 3 },
	{ .what = "piece of 4 GiB", .opcode = U4R_OP_SEND, .num_sge = 1, .length = 0xffffffff,
	  .producer = 3 },
	{ .what = "address of the kernel", .opcode = U4R_OP_SEND, .num_sge = 1, .length = 16,
	  .address = 0xffff888000001000ull, .producer = 3 },
	{ .what = "producer far ahead", .opcode = U4R_OP_SEND, .num_sge = 1, .length = 16,
	  .producer = 100000 },
	{ .what = "producer behind", .opcode = U4R_OP_SEND, .num_sge = 1, .length = 16,
	  .producer = 0xfffffff0 },
};

static void try_send_change(struct device *dev, const struct send_change *change)
{
	struct ringed_pair rp;
	struct u4r_sqe *sqe;
	struct u4r_sge *sge;

	ringed_open(&rp, dev);
	sqe = (void *)(rp.sq.start + U4R_RING_ENTRIES + 2 * rp.sq.stride);
	memcpy(sqe, rp.sq.start + U4R_RING_ENTRIES, rp.sq.stride);
	sge = (struct u4r_sge *)(sqe + 1);
	sqe->opcode = change->opcode;
	sqe->flags = U4R_SF_SIGNALED | change->flags;
	sqe->num_sge = change->num_sge;
	sqe->inline_len = change->inline_len;
	if (!(change->flags & U4R_SF_INLINE)) {
		sge->length = change->length;
		if (change->address)
			sge->addr = change->address;
	}
	set_producer(&rp.sq, change->producer);
	doorbell(rp.pair.qp[0]);
	expect_error(&rp, change->what);
	pair_close(&rp.pair);
	others_work(dev);
}

void bad_send_ring(struct device *dev)
{
	size_t i;

	if (!own_device(dev))
		return skip("not this driver's device");
	for (i = 0; i < ARRAY_SIZE(send_changes); i++)
		try_send_change(dev, &send_changes[i]);
}

/* The receiver's ring: its own queue pair fails, and the sender is told. */
static void try_receive_change(struct device *dev, uint32_t num_sge, uint64_t address,
			       uint32_t producer)
{
	struct ringed_pair rp;
	struct request send = { .opcode = IBV_WR_SEND, .length = 16 };
	struct u4r_rqe *rqe;
	struct ibv_wc wc;

	ringed_open(&rp, dev);
	rqe = (void *)(rp.rq.start + U4R_RING_ENTRIES + 2 * rp.rq.stride);
	memcpy(rqe, rp.rq.start + U4R_RING_ENTRIES, rp.rq.stride);
	rqe->num_sge = num_sge;
	if (address)
		((struct u4r_sge *)(rqe + 1))->addr = address;
	set_producer(&rp.rq, producer);
	send.local = (uintptr_t)rp.pair.buffer[0];
	send.lkey = rp.pair.mr[0]->lkey;
	expect(!post_request(rp.pair.qp[0], &send));
	expect(wait_completion(rp.pair.cq[0], &wc, 5000) && wc.status != IBV_WC_SUCCESS,
	       "%u pieces, producer %u", num_sge, producer);
	expect_state(rp.pair.qp[1], IBV_QPS_ERR);
	pair_close(&rp.pair);
	others_work(dev);
}

void bad_receive_ring(struct device *dev)
{
	if (!own_device(dev))
		return skip("not this driver's device");
	try_receive_change(dev, 255, 0, 3);
	try_receive_change(dev, 0xffffffff, 0, 3);
	try_receive_change(dev, 1, 0xffff888000001000ull, 3);
	try_receive_change(dev, 1, 0, 100000);
}

/* A consumer index that lies: the queue may be declared overrun, its queue pairs
 * may fail; the kernel and everybody else go on. */
void bad_completion_ring(struct device *dev)
{
	static const uint32_t lies[] = { 1000000, 0x80000000, 0xffffff00 };
	struct ring maps[MAX_MAPS];
	struct u4r_ring_user *user;
	struct ringed_pair rp;
	struct request send = { .opcode = IBV_WR_SEND, .length = 0 };
	struct ibv_wc wc;
	int i, count, number;

	if (!own_device(dev))
		return skip("not this driver's device");
	for (i = 0; i < (int)ARRAY_SIZE(lies); i++) {
		ringed_open(&rp, dev);
		count = find_maps(maps);
		/* Every map that is neither send nor receive ring of ours is a
		 * completion ring, or a ring that this case may spoil as well. */
		for (number = 0; number < count; number++) {
			user = (void *)maps[number].start;
			if (maps[number].start == rp.sq.start || maps[number].start == rp.rq.start)
				continue;
			__atomic_store_n(&user->cons, lies[i], __ATOMIC_SEQ_CST);
			__atomic_store_n(&user->arm, 0xffffffff, __ATOMIC_SEQ_CST);
		}
		expect(!post_receive_at(rp.pair.qp[1], 1, NULL, 0, 0));
		expect(!post_request(rp.pair.qp[0], &send));
		/* Whatever it answers, an error too: the queue is spoilt. */
		usleep(200000);
		ibv_poll_cq(rp.pair.cq[0], 1, &wc);
		pair_close(&rp.pair);
		others_work(dev);
	}
}
