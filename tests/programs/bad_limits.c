// SPDX-License-Identifier: GPL-2.0
/* u4r_badinput: what the device says it can, at the limit and one above; and
 * what it does not say it can, which must answer EOPNOTSUPP. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "badinput.h"
#include "usb4_rdma-abi.h"

/* Creates a queue pair of these capacities and destroys it. Returns an errno. */
static int try_qp(struct device *dev, struct ibv_qp_cap cap)
{
	struct ibv_cq *cq = ibv_create_cq(dev->ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = cap, .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(dev->pd, &init);
	int err = qp ? 0 : errno;

	expect(!qp || (init.cap.max_send_wr >= cap.max_send_wr &&
		       init.cap.max_recv_wr >= cap.max_recv_wr &&
		       init.cap.max_send_sge >= cap.max_send_sge &&
		       init.cap.max_recv_sge >= cap.max_recv_sge &&
		       init.cap.max_inline_data >= cap.max_inline_data), "capacities clamped");
	if (qp)
		expect(!ibv_destroy_qp(qp));
	expect(!ibv_destroy_cq(cq));
	return err;
}

static int try_cq(struct device *dev, int entries)
{
	struct ibv_cq *cq = ibv_create_cq(dev->ctx, entries, NULL, NULL, 0);
	int err = cq ? 0 : errno;

	expect(!cq || cq->cqe >= entries);
	if (cq)
		expect(!ibv_destroy_cq(cq));
	return err;
}

static void qp_limits(struct device *dev)
{
	const struct ibv_device_attr *a = &dev->attr;
	uint32_t wr = a->max_qp_wr, sge = a->max_sge;

	expect(!try_qp(dev, (struct ibv_qp_cap){ wr, wr, 1, 1, 0 }));
	expect(!try_qp(dev, (struct ibv_qp_cap){ wr, wr, sge, sge, U4R_MAX_INLINE }));
	expect(try_qp(dev, (struct ibv_qp_cap){ wr + 1, 1, 1, 1, 0 }) == EINVAL);
	expect(try_qp(dev, (struct ibv_qp_cap){ 1, wr + 1, 1, 1, 0 }) == EINVAL);
	expect(try_qp(dev, (struct ibv_qp_cap){ 1, 1, sge + 1, 1, 0 }) == EINVAL);
	expect(try_qp(dev, (struct ibv_qp_cap){ 1, 1, 1, sge + 1, 0 }) == EINVAL);
	/* libfabric looks for the limit by trying: a clamped value misleads it. */
	expect(try_qp(dev, (struct ibv_qp_cap){ 1, 1, 1, 1, U4R_MAX_INLINE + 1 }) == EINVAL);
	/* NCCL's sender has no receive queue. */
	expect(!try_qp(dev, (struct ibv_qp_cap){ 512, 0, 1, 0, 0 }));
}

static void rd_atomic_limits(struct device *dev)
{
	struct pair_options options = { .unconnected = true };
	struct device greedy = *dev;
	struct pair pair;

	pair_open(&pair, dev, &options);
	greedy.attr.max_qp_rd_atom++;
	expect(qp_connect(&greedy, pair.qp[0], 1, &pair.address[1], &default_timing) == EINVAL);
	greedy = *dev;
	greedy.attr.max_qp_init_rd_atom++;
	expect(qp_connect(&greedy, pair.qp[1], 1, &pair.address[0], &default_timing) == EINVAL);
	pair_close(&pair);
}

void limits(struct device *dev)
{
	const struct ibv_device_attr *a = &dev->attr;

	expect(a->max_qp >= 4096 && a->max_mr >= 65536 && a->max_pd >= 4096,
	       "QPs %d MRs %d PDs %d", a->max_qp, a->max_mr, a->max_pd);
	expect(a->max_qp_wr >= 16384 && a->max_cqe >= 65536 && a->max_sge >= 16);
	expect(a->max_qp_rd_atom >= 16 && a->max_qp_init_rd_atom >= 16);
	expect(dev->port.max_msg_sz >= 1u << 30);
	expect(!try_cq(dev, 1));
	expect(!try_cq(dev, a->max_cqe));
	expect(try_cq(dev, a->max_cqe + 1) == EINVAL);
	expect(try_cq(dev, 0) == EINVAL);
	qp_limits(dev);
	rd_atomic_limits(dev);
}

/* A message of max_msg_sz, from and to 16 times the same memory: what arrives
 * last stays. One byte more is refused or fails locally. */
void longest_message(struct device *dev)
{
	struct pair_options options = { .sges = 16 };
	uint32_t total = dev->port.max_msg_sz, piece = total / 16;
	uint8_t *from = aligned_alloc(4096, piece + 4096), *to = aligned_alloc(4096, piece + 4096);
	struct ibv_mr *mr[2];
	struct ibv_sge out[16], in[16];
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = out, .num_sge = 16,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_recv_wr rwr = { .sg_list = in, .num_sge = 16 }, *rbad;
	struct pair pair;
	struct ibv_wc wc;
	int i, err;

	if (total > 1u << 30 || !from || !to)
		return skip("messages above 1 GiB, or no memory");
	pair_open(&pair, dev, &options);
	mr[0] = mr_make(dev, from, piece + 4096);
	mr[1] = mr_make(dev, to, piece + 4096);
	pattern_fill(9, 0, from, piece);
	for (i = 0; i < 16; i++) {
		out[i] = (struct ibv_sge){ (uintptr_t)from, piece, mr[0]->lkey };
		in[i] = (struct ibv_sge){ (uintptr_t)to, piece, mr[1]->lkey };
	}
	expect(!ibv_post_recv(pair.qp[1], &rwr, &rbad));
	expect(!ibv_post_send(pair.qp[0], &wr, &bad));
	expect(wait_completion(pair.cq[1], &wc, 200000) && wc.status == IBV_WC_SUCCESS);
	expect(wc.byte_len == total);
	expect_status(pair.cq[0], IBV_WC_SUCCESS);
	expect(pattern_differs(9, 0, to, piece) == -1);
	out[15].length++;
	err = ibv_post_send(pair.qp[0], &wr, &bad);
	expect(err == EINVAL || !err);
	if (!err)
		expect_status(pair.cq[0], IBV_WC_LOC_LEN_ERR);
	pair_close(&pair);
	expect(!ibv_dereg_mr(mr[0]));
	expect(!ibv_dereg_mr(mr[1]));
	free(from);
	free(to);
}

/* An object that is there, or the one errno that says "not on this device". */
#define absent_or(make, destroy)						\
	do {									\
		errno = 0;							\
		__auto_type object = (make);					\
		if (object)							\
			destroy(object);					\
		else								\
			expect(errno == EOPNOTSUPP, #make ": errno %d", errno);	\
	} while (0)

static void absent_queues(struct device *dev, struct ibv_cq *cq)
{
	struct ibv_cq_init_attr_ex cq_ex = { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN };
	struct ibv_qp_init_attr ud = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 },
	};
	struct ibv_qp_init_attr_ex qp_ex = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 },
		.pd = dev->pd, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_wq_init_attr wq = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = dev->pd, .cq = cq,
	};

	absent_or(ibv_cq_ex_to_cq(ibv_create_cq_ex(dev->ctx, &cq_ex)), ibv_destroy_cq);
	absent_or(ibv_create_qp(dev->pd, &ud), ibv_destroy_qp);
	absent_or(ibv_create_qp_ex(dev->ctx, &qp_ex), ibv_destroy_qp);
	absent_or(ibv_create_srq(dev->pd, &srq), ibv_destroy_srq);
	absent_or(ibv_create_wq(dev->ctx, &wq), ibv_destroy_wq);
}

static void absent_memory(struct device *dev)
{
	struct ibv_alloc_dm_attr dm = { .length = 4096 };
	struct ibv_td_init_attr td = {};

	absent_or(ibv_alloc_mw(dev->pd, IBV_MW_TYPE_1), ibv_dealloc_mw);
	absent_or(ibv_alloc_dm(dev->ctx, &dm), ibv_free_dm);
	absent_or(ibv_alloc_td(dev->ctx, &td), ibv_dealloc_td);
	absent_or(ibv_alloc_null_mr(dev->pd), ibv_dereg_mr);
}

void absent(struct device *dev)
{
	struct ibv_cq *cq = ibv_create_cq(dev->ctx, 16, NULL, NULL, 0);
	struct ibv_ah_attr ah = {
		.is_global = 1, .port_num = 1,
		.grh = { .dgid = dev->gid, .sgid_index = dev->gid_index, .hop_limit = 1 },
	};
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
		.oflags = 0100 /* O_CREAT */,
	};

	absent_queues(dev, cq);
	absent_memory(dev);
	absent_or(ibv_create_ah(dev->pd, &ah), ibv_destroy_ah);
	absent_or(ibv_open_xrcd(dev->ctx, &xrcd), ibv_close_xrcd);
	expect(!ibv_destroy_cq(cq));
}
