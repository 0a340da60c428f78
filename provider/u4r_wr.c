// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The extended way to post (ibv_wr_start .. ibv_wr_complete): entries are built one
 * call at a time in the mapped ring, under the queue's lock, and published together.
 * The first error is remembered, and then nothing of the batch is published.
 */
#include <string.h>

#include "u4r.h"

/* Younger than the rest of this interface; the Makefile looks. */
#ifdef U4R_HAS_ATOMIC_WRITE
#define ATOMIC_WRITE_OP	IBV_QP_EX_WITH_ATOMIC_WRITE
#else
#define ATOMIC_WRITE_OP	0
#endif

#define SUPPORTED_OPS								\
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |	\
	 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |			\
	 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |		\
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |		\
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | ATOMIC_WRITE_OP)
/* Those of an unreliable connection. */
#define UC_OPS									\
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |	\
	 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |			\
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)

static inline struct u4r_qp *ex_uqp(struct ibv_qp_ex *qp)
{
	return container_of(qp, struct u4r_qp, base.qp_ex);
}

static void wr_start(struct ibv_qp_ex *ibqp)
{
	struct u4r_qp *qp = ex_uqp(ibqp);

	pthread_spin_lock(&qp->sq_lock);
	qp->wr_first = qp->sq_prod;
	qp->wr_error = ibqp->qp_base.state < IBV_QPS_RTS ? EINVAL : 0;
	qp->wr_sqe = NULL;
}

/* Begins the next entry. NULL after an error. */
static struct u4r_sqe *begin(struct ibv_qp_ex *ibqp, uint8_t op)
{
	struct u4r_qp *qp = ex_uqp(ibqp);
	struct u4r_sqe *sqe;

	qp->wr_sqe = NULL;
	if (unlikely(!qp->wr_error && u4r_sq_full(qp)))
		qp->wr_error = ENOMEM;
	if (unlikely(qp->wr_error))
		return NULL;
	sqe = ring_slot(&qp->sq, qp->sq_prod++);
	*sqe = (struct u4r_sqe){
		.wr_id = ibqp->wr_id,
		.opcode = op,
		.flags = u4r_send_flags(qp, ibqp->wr_flags & ~IBV_SEND_INLINE),
	};
	qp->wr_sqe = sqe;
	return sqe;
}

static void begin_send(struct ibv_qp_ex *ibqp, uint8_t op, uint32_t imm)
{
	struct u4r_sqe *sqe = begin(ibqp, op);

	if (sqe)
		sqe->imm = imm;
}

static void begin_rdma(struct ibv_qp_ex *ibqp, uint8_t op, uint32_t rkey, uint64_t addr,
		       uint32_t imm)
{
	struct u4r_sqe *sqe = begin(ibqp, op);

	if (!sqe)
		return;
	sqe->rkey = rkey;
	sqe->remote_addr = addr;
	sqe->imm = imm;
}

static void begin_atomic(struct ibv_qp_ex *ibqp, uint8_t op, uint32_t rkey, uint64_t addr,
			 uint64_t compare_add, uint64_t swap)
{
	struct u4r_sqe *sqe = begin(ibqp, op);

	if (!sqe)
		return;
	sqe->rkey = rkey;
	sqe->remote_addr = addr;
	sqe->compare_add = compare_add;
	sqe->swap = swap;
}

static void wr_send(struct ibv_qp_ex *qp)
{
	begin_send(qp, U4R_OP_SEND, 0);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	begin_send(qp, U4R_OP_SEND_IMM, (uint32_t)imm);
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	begin_send(qp, U4R_OP_SEND_INV, rkey);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	begin_rdma(qp, U4R_OP_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, __be32 imm)
{
	begin_rdma(qp, U4R_OP_WRITE_IMM, rkey, addr, (uint32_t)imm);
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	begin_rdma(qp, U4R_OP_READ, rkey, addr, 0);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr,
			      uint64_t compare, uint64_t swap)
{
	begin_atomic(qp, U4R_OP_CMP_SWAP, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr,
				uint64_t add)
{
	begin_atomic(qp, U4R_OP_FETCH_ADD, rkey, addr, add, 0);
}

#ifdef U4R_HAS_ATOMIC_WRITE
static void wr_atomic_write(struct ibv_qp_ex *ibqp, uint32_t rkey, uint64_t addr,
			    const void *value)
{
	struct u4r_sqe *sqe;

	begin_rdma(ibqp, U4R_OP_ATOMIC_WRITE, rkey, addr, 0);
	sqe = ex_uqp(ibqp)->wr_sqe;
	if (!sqe)
		return;
	/* Room for 8 bytes is behind every entry. */
	memcpy(sqe + 1, value, 8);
	sqe->flags |= U4R_SF_INLINE;
	sqe->inline_len = 8;
}
#endif

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	begin_send(qp, U4R_OP_LOCAL_INV, rkey);
}

static void wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct u4r_sqe *sqe = begin(qp, U4R_OP_BIND_MW);

	if (sqe)
		u4r_fill_bind(sqe, mw, rkey, info);
}

static void wr_set_sge_list(struct ibv_qp_ex *ibqp, size_t count, const struct ibv_sge *list)
{
	struct u4r_qp *qp = ex_uqp(ibqp);

	if (!qp->wr_sqe)
		return;
	if (unlikely(count > qp->max_send_sge)) {
		qp->wr_error = EINVAL;
		return;
	}
	qp->wr_sqe->num_sge = count;
	u4r_copy_sges((struct u4r_sge *)(qp->wr_sqe + 1), list, count);
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	/* A message without data has no element: its key need not be valid. */
	wr_set_sge_list(qp, length ? 1 : 0, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ibqp, size_t count,
				    const struct ibv_data_buf *list)
{
	struct u4r_qp *qp = ex_uqp(ibqp);
	struct u4r_sqe *sqe = qp->wr_sqe;
	uint8_t *to = (uint8_t *)(sqe + 1);
	size_t room = qp->max_inline, i;

	if (!sqe)
		return;
	for (i = 0; i < count; i++) {
		if (unlikely(list[i].length > room)) {
			qp->wr_error = EINVAL;
			return;
		}
		memcpy(to, list[i].addr, list[i].length);
		to += list[i].length;
		room -= list[i].length;
	}
	sqe->flags |= U4R_SF_INLINE;
	sqe->inline_len = qp->max_inline - room;
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	struct ibv_data_buf buffer = { .addr = addr, .length = length };

	wr_set_inline_data_list(qp, 1, &buffer);
}

static int wr_complete(struct ibv_qp_ex *ibqp)
{
	struct u4r_qp *qp = ex_uqp(ibqp);

	if (unlikely(qp->wr_error))
		qp->sq_prod = qp->wr_first;
	if (likely(qp->sq_prod != qp->wr_first))
		return u4r_ring_sends(qp, qp->wr_first);
	pthread_spin_unlock(&qp->sq_lock);
	return qp->wr_error;
}

static void wr_abort(struct ibv_qp_ex *ibqp)
{
	struct u4r_qp *qp = ex_uqp(ibqp);

	qp->sq_prod = qp->wr_first;
	pthread_spin_unlock(&qp->sq_lock);
}

int u4r_wr_check(const struct ibv_qp_init_attr_ex *attr)
{
	uint64_t ops = attr->qp_type == IBV_QPT_RC ? SUPPORTED_OPS :
		       attr->qp_type == IBV_QPT_UC ? UC_OPS : 0;

	return attr->send_ops_flags & ~ops ? EOPNOTSUPP : 0;
}

void u4r_wr_setup(struct u4r_qp *qp)
{
	struct ibv_qp_ex *ex = &qp->base.qp_ex;

	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
#ifdef U4R_HAS_ATOMIC_WRITE
	ex->wr_atomic_write = wr_atomic_write;
#endif
	ex->wr_local_inv = wr_local_inv;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	qp->base.comp_mask |= VERBS_QP_EX;
}
