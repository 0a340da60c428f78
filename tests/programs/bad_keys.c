// SPDX-License-Identifier: GPL-2.0
/* u4r_badinput: keys, ranges, rights and protection domains. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "badinput.h"

/* As an offset: an address whose range wraps around the end of all addresses. */
#define WRAPS	INT64_MIN

/* A try at memory that must be refused. */
struct attempt {
	const char *what;
	enum ibv_wr_opcode opcode;
	uint64_t remote;
	uint32_t rkey, length;
};

static bool untouched(const struct pair *pair, int end)
{
	size_t i;

	for (i = 0; i < BUFFER_SIZE; i++)
		if (pair->buffer[end][i] != 'a' + end)
			return false;
	return true;
}

/* The refusal, and what follows from it: nothing written anywhere, the
 * requester's queue pair in the error state, later requests flushed. */
static void refused(struct pair *pair, const struct attempt *attempt)
{
	struct request request = {
		.opcode = attempt->opcode, .local = (uintptr_t)pair->buffer[0],
		.length = attempt->length, .lkey = pair->mr[0]->lkey,
		.remote = attempt->remote, .rkey = attempt->rkey,
	};
	struct ibv_wc wc;

	expect(!post_request(pair->qp[0], &request));
	wc = expect_status(pair->cq[0], IBV_WC_REM_ACCESS_ERR);
	expect(wc.status == IBV_WC_REM_ACCESS_ERR, "%s", attempt->what);
	expect(untouched(pair, 1), "%s: memory of the target changed", attempt->what);
	expect(untouched(pair, 0), "%s: memory of the requester changed", attempt->what);
	expect_state(pair->qp[0], IBV_QPS_ERR);
	expect(!post_request(pair->qp[0], &request));
	expect_status(pair->cq[0], IBV_WC_WR_FLUSH_ERR);
}

static void refused_on_fresh_pair(struct device *dev, const struct pair_options *options,
				  struct ibv_mr *mr, const char *what,
				  enum ibv_wr_opcode opcode, int64_t offset, uint32_t length,
				  uint32_t key_change)
{
	struct pair pair;
	struct attempt attempt = { .what = what, .opcode = opcode, .length = length };

	pair_open(&pair, dev, options);
	/* mr NULL: the target's own buffer. */
	attempt.remote = (uintptr_t)(mr ? mr->addr : pair.buffer[1]) + offset;
	if (offset == WRAPS)
		attempt.remote = UINT64_MAX - 10;
	attempt.rkey = (mr ? mr->rkey : pair.mr[1]->rkey) ^ key_change;
	refused(&pair, &attempt);
	pair_close(&pair);
}

static void bad_ranges(struct device *dev)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(opcodes); i++) {
		enum ibv_wr_opcode op = opcodes[i];

		refused_on_fresh_pair(dev, NULL, NULL, "unknown key", op, 0, 64, 0x5a5a5a00);
		refused_on_fresh_pair(dev, NULL, NULL, "neighbour of a key", op, 0, 64, 1);
		refused_on_fresh_pair(dev, NULL, NULL, "one byte beyond the end", op,
				      BUFFER_SIZE - 63, 64, 0);
		refused_on_fresh_pair(dev, NULL, NULL, "one byte before the start", op, -1, 64, 0);
		/* Its first frames would fit: it is refused as a whole. */
		refused_on_fresh_pair(dev, NULL, NULL, "last of many frames beyond the end", op,
				      BUFFER_SIZE - 19999, 20000, 0);
		refused_on_fresh_pair(dev, NULL, NULL, "range that wraps around", op,
				      WRAPS, 64, 0);
	}
}

static void bad_rights(struct device *dev)
{
	static const struct pair_options no_write = {
		.target_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	}, no_read = {
		.target_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};
	void *memory = aligned_alloc(4096, 4096);
	struct ibv_mr *readable, *writable;

	readable = ibv_reg_mr(dev->pd, memory, 4096, IBV_ACCESS_REMOTE_READ);
	writable = ibv_reg_mr(dev->pd, memory, 4096,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!readable || !writable)
		die(errno, "reg_mr");
	refused_on_fresh_pair(dev, NULL, readable, "WRITE to a read-only region",
			      IBV_WR_RDMA_WRITE, 0, 64, 0);
	refused_on_fresh_pair(dev, NULL, writable, "READ of a write-only region",
			      IBV_WR_RDMA_READ, 0, 64, 0);
	expect(!ibv_dereg_mr(readable));
	expect(!ibv_dereg_mr(writable));
	free(memory);
	refused_on_fresh_pair(dev, &no_write, NULL, "WRITE to a QP without the right",
			      IBV_WR_RDMA_WRITE, 0, 64, 0);
	refused_on_fresh_pair(dev, &no_read, NULL, "READ of a QP without the right",
			      IBV_WR_RDMA_READ, 0, 64, 0);
}

/* The key is right, but its region belongs to another protection domain. */
static void other_domain(struct device *dev)
{
	struct ibv_pd *pd = ibv_alloc_pd(dev->ctx);
	struct pair_options options = { .target_pd = pd };
	void *memory = aligned_alloc(4096, 4096);
	struct ibv_mr *mr = mr_make(dev, memory, 4096);

	if (!pd)
		die(errno, "alloc_pd");
	refused_on_fresh_pair(dev, &options, mr, "region of another domain, WRITE",
			      IBV_WR_RDMA_WRITE, 0, 64, 0);
	refused_on_fresh_pair(dev, &options, mr, "region of another domain, READ",
			      IBV_WR_RDMA_READ, 0, 64, 0);
	expect(!ibv_dereg_mr(mr));
	expect(!ibv_dealloc_pd(pd));
	free(memory);
}

static void stale_key(struct device *dev)
{
	void *memory = aligned_alloc(4096, 4096);
	struct ibv_mr *mr = mr_make(dev, memory, 4096), copy = *mr;

	expect(!ibv_dereg_mr(mr));
	refused_on_fresh_pair(dev, NULL, &copy, "deregistered region", IBV_WR_RDMA_WRITE, 0, 64, 0);
	free(memory);
}

void bad_remote_keys(struct device *dev)
{
	bad_ranges(dev);
	bad_rights(dev);
	other_domain(dev);
	stale_key(dev);
	others_work(dev);
}

static void bad_gather(struct device *dev, uint32_t key_change, int64_t offset)
{
	struct pair pair;
	struct request send = { .opcode = IBV_WR_SEND, .length = 64 };

	pair_open(&pair, dev, NULL);
	expect(!post_receive_at(pair.qp[1], 1, pair.buffer[1], 64, pair.mr[1]->lkey));
	send.local = (uintptr_t)pair.buffer[0] + offset;
	send.lkey = pair.mr[0]->lkey ^ key_change;
	expect(!post_request(pair.qp[0], &send));
	expect_status(pair.cq[0], IBV_WC_LOC_PROT_ERR);
	expect_state(pair.qp[0], IBV_QPS_ERR);
	expect(untouched(&pair, 1));
	pair_close(&pair);
}

/* The receiver's mistake: told to both sides. */
static void bad_scatter(struct device *dev)
{
	struct pair pair;
	struct request send = { .opcode = IBV_WR_SEND, .length = 64 };

	pair_open(&pair, dev, NULL);
	expect(!post_receive_at(pair.qp[1], 1, pair.buffer[1], 64,
				pair.mr[1]->lkey ^ 0x5a5a5a00));
	send.local = (uintptr_t)pair.buffer[0];
	send.lkey = pair.mr[0]->lkey;
	expect(!post_request(pair.qp[0], &send));
	expect_status(pair.cq[1], IBV_WC_LOC_PROT_ERR);
	expect_status(pair.cq[0], IBV_WC_REM_OP_ERR);
	expect(untouched(&pair, 1));
	pair_close(&pair);
}

/* A READ whose result may not be written here. */
static void read_into_read_only(struct device *dev)
{
	void *memory = aligned_alloc(4096, 4096);
	struct ibv_mr *mr = ibv_reg_mr(dev->pd, memory, 4096, 0);
	struct request read = {
		.opcode = IBV_WR_RDMA_READ, .local = (uintptr_t)memory, .length = 64,
	};
	struct pair pair;

	if (!mr)
		die(errno, "reg_mr");
	memset(memory, 'z', 4096);
	pair_open(&pair, dev, NULL);
	read.lkey = mr->lkey;
	read.remote = (uintptr_t)pair.buffer[1];
	read.rkey = pair.mr[1]->rkey;
	expect(!post_request(pair.qp[0], &read));
	expect_status(pair.cq[0], IBV_WC_LOC_PROT_ERR);
	expect(*(char *)memory == 'z');
	pair_close(&pair);
	expect(!ibv_dereg_mr(mr));
	free(memory);
}

void bad_local_keys(struct device *dev)
{
	bad_gather(dev, 0x5a5a5a00, 0);
	bad_gather(dev, 0, BUFFER_SIZE - 63);
	bad_gather(dev, 0, -1);
	bad_scatter(dev);
	read_into_read_only(dev);
	others_work(dev);
}

/* llama.cpp deregisters memory under posted receives: it goes at once, and who
 * uses it afterwards is told. */
void deregister_early(struct device *dev)
{
	struct pair pair;
	struct request send = { .opcode = IBV_WR_SEND, .length = 64 };

	pair_open(&pair, dev, NULL);
	expect(!post_receive_at(pair.qp[1], 1, pair.buffer[1], 64, pair.mr[1]->lkey));
	expect(!ibv_dereg_mr(pair.mr[1]));
	pair.mr[1] = NULL;
	send.local = (uintptr_t)pair.buffer[0];
	send.lkey = pair.mr[0]->lkey;
	expect(!post_request(pair.qp[0], &send));
	expect_status(pair.cq[1], IBV_WC_LOC_PROT_ERR);
	expect_status(pair.cq[0], IBV_WC_REM_OP_ERR);
	expect(untouched(&pair, 1));
	pair_close(&pair);
	others_work(dev);
}
