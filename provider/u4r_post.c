// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Posting: an entry in the mapped ring, its index published, and a system call
 * only if the kernel's word in the ring says that nobody would look otherwise.
 */
#include <string.h>
#include <unistd.h>

#include "u4r.h"

/* Verbs' opcode -> the ring's, and what an entry of it may carry. */
struct opcode_row {
	uint8_t op;		/* 0: not a request that this device has */
	bool on_uc;		/* legal on an unreliable connection */
	bool inlinable;
	bool immediate;		/* imm_data (or the key to invalidate) is valid */
};

static const struct opcode_row opcodes[] = {
	[IBV_WR_RDMA_WRITE] = { U4R_OP_WRITE, true, true, false },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { U4R_OP_WRITE_IMM, true, true, true },
	[IBV_WR_SEND] = { U4R_OP_SEND, true, true, false },
	[IBV_WR_SEND_WITH_IMM] = { U4R_OP_SEND_IMM, true, true, true },
	[IBV_WR_RDMA_READ] = { U4R_OP_READ, false, false, false },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { U4R_OP_CMP_SWAP, false, false, false },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { U4R_OP_FETCH_ADD, false, false, false },
	[IBV_WR_SEND_WITH_INV] = { U4R_OP_SEND_INV, false, true, true },
	[IBV_WR_LOCAL_INV] = { U4R_OP_LOCAL_INV, true, false, true },
	[IBV_WR_BIND_MW] = { U4R_OP_BIND_MW, true, false, false },
#ifdef U4R_HAS_ATOMIC_WRITE
	[IBV_WR_ATOMIC_WRITE] = { U4R_OP_ATOMIC_WRITE, false, true, false },
#endif
};

static const struct opcode_row *find_opcode(const struct u4r_qp *qp,
					    enum ibv_wr_opcode opcode)
{
	const struct opcode_row *row;

	if ((unsigned int)opcode >= sizeof(opcodes) / sizeof(opcodes[0]))
		return NULL;
	row = &opcodes[opcode];
	if (!row->op || (qp->base.qp.qp_type == IBV_QPT_UC && !row->on_uc))
		return NULL;
	return row;
}

/* Copies the data of an inline request behind its entry. Returns the number of
 * bytes, or -1 if they do not fit. */
static int fill_inline(const struct u4r_qp *qp, struct u4r_sqe *sqe,
		       const struct ibv_send_wr *wr)
{
	uint8_t *data = (uint8_t *)(sqe + 1);
	uint32_t room = qp->max_inline;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length > room)
			return -1;
		memcpy(data, (const void *)(uintptr_t)sge->addr, sge->length);
		data += sge->length;
		room -= sge->length;
	}
	return qp->max_inline - room;
}

void u4r_copy_sges(struct u4r_sge *to, const struct ibv_sge *from, int count)
{
	int i;

	for (i = 0; i < count; i++)
		to[i] = (struct u4r_sge){ from[i].addr, from[i].length, from[i].lkey };
}

uint8_t u4r_send_flags(const struct u4r_qp *qp, unsigned int flags)
{
	return (qp->sq_sig_all || flags & IBV_SEND_SIGNALED ? U4R_SF_SIGNALED : 0) |
	       (flags & IBV_SEND_SOLICITED ? U4R_SF_SOLICITED : 0) |
	       (flags & IBV_SEND_FENCE ? U4R_SF_FENCE : 0) |
	       (flags & IBV_SEND_INLINE ? U4R_SF_INLINE : 0);
}

/* Fills one send entry. Returns 0 or EINVAL. */
static int fill_send(const struct u4r_qp *qp, struct u4r_sqe *sqe,
		     const struct ibv_send_wr *wr)
{
	const struct opcode_row *row = find_opcode(qp, wr->opcode);
	int inline_len = 0;

	if (unlikely(!row || wr->num_sge < 0))
		return EINVAL;
	*sqe = (struct u4r_sqe){
		.wr_id = wr->wr_id,
		.opcode = row->op,
		.flags = u4r_send_flags(qp, wr->send_flags),
		.imm = row->immediate ? wr->imm_data : 0,
	};
	if (row->op == U4R_OP_CMP_SWAP || row->op == U4R_OP_FETCH_ADD) {
		sqe->remote_addr = wr->wr.atomic.remote_addr;
		sqe->rkey = wr->wr.atomic.rkey;
		sqe->compare_add = wr->wr.atomic.compare_add;
		sqe->swap = wr->wr.atomic.swap;
	} else if (row->op == U4R_OP_WRITE || row->op == U4R_OP_WRITE_IMM ||
		   row->op == U4R_OP_READ || row->op == U4R_OP_ATOMIC_WRITE) {
		sqe->remote_addr = wr->wr.rdma.remote_addr;
		sqe->rkey = wr->wr.rdma.rkey;
	} else if (row->op == U4R_OP_BIND_MW) {
		u4r_fill_bind(sqe, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		return 0;
	} else if (row->op == U4R_OP_LOCAL_INV) {
		return 0;
	}
	if (wr->send_flags & IBV_SEND_INLINE) {
		/* More pieces than max_send_sge are welcome: only bytes count. */
		inline_len = row->inlinable ? fill_inline(qp, sqe, wr) : -1;
		if (unlikely(inline_len < 0))
			return EINVAL;
		sqe->inline_len = inline_len;
		return 0;
	}
	if (unlikely((uint32_t)wr->num_sge > qp->max_send_sge))
		return EINVAL;
	sqe->num_sge = wr->num_sge;
	u4r_copy_sges((struct u4r_sge *)(sqe + 1), wr->sg_list, wr->num_sge);
	return 0;
}

bool u4r_sq_full(struct u4r_qp *qp)
{
	if (likely(qp->sq_prod - qp->sq_cons < qp->sq.entries))
		return false;
	qp->sq_cons = ring_observe(&ring_kernel(&qp->sq)->cons);
	return qp->sq_prod - qp->sq_cons >= qp->sq.entries;
}

static bool rq_full(struct u4r_qp *qp)
{
	if (likely(qp->rq_prod - qp->rq_cons < qp->rq.entries))
		return false;
	qp->rq_cons = ring_observe(&ring_kernel(&qp->rq)->cons);
	return qp->rq_prod - qp->rq_cons >= qp->rq.entries;
}

/* Wakes the kernel for this queue pair. Returns 0 or an errno. */
static int ring_doorbell(const struct u4r_qp *qp)
{
	ssize_t ret;

	do {
		ret = write(qp->base.qp.context->cmd_fd, &qp->doorbell,
			    sizeof(qp->doorbell));
	} while (ret < 0 && errno == EINTR);
	return ret < 0 ? errno : 0;
}

/*
 * The doorbell failed: the device is gone (the program has an event for that),
 * or the queue pair is in no state for it. What this call has published is
 * taken back, so that the caller can be told, if the kernel has not touched it
 * and nobody has posted since. Returns whether that was so.
 */
static bool take_back(pthread_spinlock_t *lock, struct u4r_ring *ring,
		      uint32_t *prod, uint32_t start, uint32_t end)
{
	bool untouched;

	pthread_spin_lock(lock);
	untouched = *prod == end &&
		    (int32_t)(ring_observe(&ring_kernel(ring)->cons) - start) <= 0;
	if (untouched) {
		*prod = start;
		ring_publish(&ring_user(ring)->prod, start);
	}
	pthread_spin_unlock(lock);
	return untouched;
}

int u4r_ring_sends(struct u4r_qp *qp, uint32_t start)
{
	uint32_t end = qp->sq_prod;
	bool idle;
	int rang;

	ring_publish(&ring_user(&qp->sq)->prod, end);
	ring_publish_then_ask();
	idle = ring_observe(&ring_kernel(&qp->sq)->state) == U4R_SQ_IDLE;
	pthread_spin_unlock(&qp->sq_lock);

	/* Without the lock: this call may carry a lot of data. */
	if (!idle)
		return 0;
	rang = ring_doorbell(qp);
	if (likely(!rang) || !take_back(&qp->sq_lock, &qp->sq, &qp->sq_prod, start, end))
		return 0;
	return rang;
}

int u4r_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad_wr)
{
	struct u4r_qp *qp = to_uqp(ibqp);
	struct ibv_send_wr *first = wr;
	uint32_t start;
	int ret = 0, rang;

	if (unlikely(ibqp->state < IBV_QPS_RTS)) {
		*bad_wr = wr;
		return EINVAL;
	}
	pthread_spin_lock(&qp->sq_lock);
	start = qp->sq_prod;
	for (; wr; wr = wr->next) {
		ret = u4r_sq_full(qp) ? ENOMEM :
				    fill_send(qp, ring_slot(&qp->sq, qp->sq_prod), wr);
		if (unlikely(ret)) {
			*bad_wr = wr;
			break;
		}
		qp->sq_prod++;
	}
	if (unlikely(qp->sq_prod == start)) {
		pthread_spin_unlock(&qp->sq_lock);
		return ret;
	}
	rang = u4r_ring_sends(qp, start);
	if (likely(!rang))
		return ret;
	*bad_wr = first;
	return rang;
}

int u4r_fill_recv(struct u4r_rqe *rqe, const struct ibv_recv_wr *wr, uint32_t max_sge)
{
	if (unlikely((uint32_t)wr->num_sge > max_sge))
		return EINVAL;
	*rqe = (struct u4r_rqe){ .wr_id = wr->wr_id, .num_sge = wr->num_sge };
	u4r_copy_sges((struct u4r_sge *)(rqe + 1), wr->sg_list, wr->num_sge);
	return 0;
}

int u4r_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad_wr)
{
	struct u4r_qp *qp = to_uqp(ibqp);
	struct ibv_recv_wr *first = wr;
	bool flush = false;
	uint32_t start, end;
	int ret = 0, rang;

	if (unlikely(!qp->rq.map || ibqp->state == IBV_QPS_RESET)) {
		*bad_wr = wr;
		return EINVAL;
	}
	pthread_spin_lock(&qp->rq_lock);
	start = qp->rq_prod;
	for (; wr; wr = wr->next) {
		ret = rq_full(qp) ? ENOMEM :
				    u4r_fill_recv(ring_slot(&qp->rq, qp->rq_prod), wr,
						  qp->max_recv_sge);
		if (unlikely(ret)) {
			*bad_wr = wr;
			break;
		}
		qp->rq_prod++;
	}
	end = qp->rq_prod;
	if (end != start) {
		ring_publish(&ring_user(&qp->rq)->prod, end);
		ring_publish_then_ask();
		flush = ring_observe(&ring_kernel(&qp->rq)->state) == U4R_RQ_FLUSH;
	}
	pthread_spin_unlock(&qp->rq_lock);

	/* In the error state nobody looks at this ring any more: the doorbell has
	 * the entries completed as flushed. */
	if (likely(!flush))
		return ret;
	rang = ring_doorbell(qp);
	if (!rang || !take_back(&qp->rq_lock, &qp->rq, &qp->rq_prod, start, end))
		return ret;
	*bad_wr = first;
	return rang;
}
