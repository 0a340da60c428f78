// SPDX-License-Identifier: GPL-2.0
/*
 * u4r_badinput between two hosts: the one that connects tries to reach memory of
 * the other one that it must not, over the cable, one connection for each try.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "badinput.h"

#define REGION	65536

/* What the connecting side is to try; made by the side that owns the memory. */
struct try {
	uint64_t address;
	uint32_t rkey, length, opcode, status;
	char what[40];
};

#define MAX_TRIES	16

struct offer {
	struct try tries[MAX_TRIES];
	uint32_t count;
};

static void add(struct offer *offer, const char *what, enum ibv_wr_opcode opcode,
		const void *at, uint32_t rkey, uint32_t length, enum ibv_wc_status status)
{
	struct try *try = &offer->tries[offer->count++];

	*try = (struct try){
		.address = (uintptr_t)at, .rkey = rkey, .length = length, .opcode = opcode,
		.status = status,
	};
	snprintf(try->what, sizeof(try->what), "%s", what);
}

static void make_offer(struct offer *offer, uint8_t *memory, struct ibv_mr *mr,
		       struct ibv_mr *foreign, struct ibv_mr *read_only)
{
	enum ibv_wc_status refused = IBV_WC_REM_ACCESS_ERR;

	add(offer, "READ that is allowed", IBV_WR_RDMA_READ, memory, mr->rkey, 20000,
	    IBV_WC_SUCCESS);
	add(offer, "unknown key", IBV_WR_RDMA_WRITE, memory, mr->rkey ^ 0x5a5a00, 64, refused);
	add(offer, "READ with an unknown key", IBV_WR_RDMA_READ, memory, mr->rkey ^ 0x5a5a00, 64,
	    refused);
	add(offer, "beyond the end", IBV_WR_RDMA_WRITE, memory + REGION - 19999, mr->rkey, 20000,
	    refused);
	add(offer, "before the start", IBV_WR_RDMA_WRITE, memory - 1, mr->rkey, 64, refused);
	add(offer, "another domain's region", IBV_WR_RDMA_WRITE, memory, foreign->rkey, 64,
	    refused);
	add(offer, "WRITE to a read-only region", IBV_WR_RDMA_WRITE, memory, read_only->rkey, 64,
	    refused);
	add(offer, "READ beyond the end", IBV_WR_RDMA_READ, memory + REGION - 63, mr->rkey, 64,
	    refused);
}

/* One connection between the two hosts; its other end is in the other process. */
static struct ibv_qp *meet(struct device *dev, struct ibv_cq *cq, int fd)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 },
	};
	struct ibv_qp *qp = qp_make(dev, &init);
	struct qp_address ours = qp_address(dev, qp), theirs;
	int err;

	exchange(fd, &ours, &theirs, sizeof(ours));
	err = qp_connect(dev, qp, ours.psn, &theirs, &default_timing);
	if (err)
		die(err, "modify_qp to RTS");
	barrier(fd);
	return qp;
}

static void serve(struct device *dev, struct ibv_cq *cq, int fd)
{
	uint8_t *memory = aligned_alloc(4096, REGION);
	struct ibv_pd *pd = ibv_alloc_pd(dev->ctx);
	struct device other = *dev;
	struct ibv_mr *mr, *foreign, *read_only;
	struct offer offer = {};
	uint32_t i;

	other.pd = pd;
	if (!memory || !pd)
		die(errno, "memory or domain");
	pattern_fill(11, 0, memory, REGION);
	mr = mr_make(dev, memory, REGION);
	foreign = mr_make(&other, memory, REGION);
	read_only = ibv_reg_mr(dev->pd, memory, REGION, IBV_ACCESS_REMOTE_READ);
	if (!read_only)
		die(errno, "reg_mr");
	make_offer(&offer, memory, mr, foreign, read_only);
	send_all(fd, &offer, sizeof(offer));
	for (i = 0; i < offer.count; i++) {
		struct ibv_qp *qp = meet(dev, cq, fd);

		barrier(fd);
		expect(pattern_differs(11, 0, memory, REGION) == -1, "%s: memory changed",
		       offer.tries[i].what);
		expect(!ibv_destroy_qp(qp));
	}
	expect(!ibv_dereg_mr(mr));
	expect(!ibv_dereg_mr(foreign));
	expect(!ibv_dereg_mr(read_only));
	expect(!ibv_dealloc_pd(pd));
	free(memory);
}

static void attack(struct device *dev, struct ibv_cq *cq, int fd)
{
	uint8_t *memory = aligned_alloc(4096, REGION);
	struct ibv_mr *mr = mr_make(dev, memory, REGION);
	struct offer offer;
	uint32_t i;

	receive_all(fd, &offer, sizeof(offer));
	if (offer.count > MAX_TRIES)
		die(0, "the other instance is of another version");
	for (i = 0; i < offer.count; i++) {
		const struct try *try = &offer.tries[i];
		struct request request = {
			.opcode = try->opcode, .local = (uintptr_t)memory, .length = try->length,
			.lkey = mr->lkey, .remote = try->address, .rkey = try->rkey,
		};
		struct ibv_qp *qp = meet(dev, cq, fd);

		expect(!post_request(qp, &request));
		expect(expect_status(cq, try->status).status == try->status, "%s", try->what);
		barrier(fd);
		expect(!ibv_destroy_qp(qp));
	}
	expect(!ibv_dereg_mr(mr));
	free(memory);
}

void remote(struct device *dev, const char *host, int port)
{
	int fd = bootstrap(host, port, 60);
	struct ibv_cq *cq = ibv_create_cq(dev->ctx, 64, NULL, NULL, 0);

	if (!cq)
		die(errno, "create_cq");
	if (host)
		attack(dev, cq, fd);
	else
		serve(dev, cq, fd);
	barrier(fd);
	expect(!ibv_destroy_cq(cq));
}
