// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Extended completion queues: the same ring, read field by field. The lock is held
 * from start_poll to end_poll, and the consumer index published at the end.
 */
#include <stdlib.h>

#include "u4r.h"

#define SUPPORTED_MASK	(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)

static inline struct u4r_cq *ex_ucq(struct ibv_cq_ex *cq)
{
	return container_of(cq, struct u4r_cq, base.cq_ex);
}

static int next_poll(struct ibv_cq_ex *ibcq)
{
	struct u4r_cq *cq = ex_ucq(ibcq);
	const struct u4r_cqe *cqe = u4r_cq_take(cq);

	if (!cqe)
		return ENOENT;
	cq->current = cqe;
	ibcq->wr_id = cqe->wr_id;
	ibcq->status = cqe->status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
	struct u4r_cq *cq = ex_ucq(ibcq);
	int ret;

	if (attr->comp_mask)
		return EINVAL;
	pthread_spin_lock(&cq->lock);
	ret = next_poll(ibcq);
	if (ret) {
		/* Entries of destroyed queue pairs may have been skipped. */
		u4r_cq_publish(cq);
		pthread_spin_unlock(&cq->lock);
	}
	return ret;
}

static void end_poll(struct ibv_cq_ex *ibcq)
{
	struct u4r_cq *cq = ex_ucq(ibcq);

	u4r_cq_publish(cq);
	pthread_spin_unlock(&cq->lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	return ex_ucq(cq)->current->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
	return ex_ucq(cq)->current->vendor_err;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
	return u4r_wc_flags(ex_ucq(cq)->current->flags);
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	return ex_ucq(cq)->current->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
	return (__be32)ex_ucq(cq)->current->imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	return ex_ucq(cq)->current->qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
	return ex_ucq(cq)->current->src_qpn;
}

/* There are no local identifiers on this link, and one service level. */
static uint32_t read_slid(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static uint8_t read_zero(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static void set_functions(struct ibv_cq_ex *cq)
{
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_opcode = read_opcode;
	cq->read_vendor_err = read_vendor_err;
	cq->read_wc_flags = read_wc_flags;
	cq->read_byte_len = read_byte_len;
	cq->read_imm_data = read_imm_data;
	cq->read_qp_num = read_qp_num;
	cq->read_src_qp = read_src_qp;
	cq->read_slid = read_slid;
	cq->read_sl = read_zero;
	cq->read_dlid_path_bits = read_zero;
}

struct ibv_cq_ex *u4r_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	struct u4r_cq *cq;

	/* No time stamps, no tags, and what does not fit is reported. A queue that the
	 * program promises to use from one thread is locked all the same. */
	if (attr->comp_mask & ~SUPPORTED_MASK || attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS ||
	    (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	     attr->flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	/* As the kernel's own range, which libibverbs' unsigned does not tell it. */
	if (attr->cqe > INT32_MAX || attr->comp_vector >= (uint32_t)ctx->num_comp_vectors) {
		errno = EINVAL;
		return NULL;
	}
	cq = u4r_make_cq(ctx, attr->cqe, attr->channel, attr->comp_vector);
	if (!cq)
		return NULL;
	set_functions(&cq->base.cq_ex);
	return &cq->base.cq_ex;
}
