// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues. Polling reads mapped memory only: an entry is there when
 * its `valid` word says so for this pass of the ring, and the consumer index
 * tells the kernel which slots are free again. Arming is a store.
 */
#include <stdlib.h>

#include "u4r.h"

/* In u4r_cqe.flags, set by this provider in an entry that it will not report:
 * the entry of a queue pair that has been destroyed. The kernel leaves it 0. */
#define U4R_WCF_FORGOTTEN	(1 << 15)

struct u4r_cq_resp {
	struct ib_uverbs_create_cq_resp ibv;
	struct u4r_create_cq_resp drv;
};

struct u4r_cq *u4r_make_cq(struct ibv_context *ctx, int entries,
			   struct ibv_comp_channel *channel, int vector)
{
	struct ibv_create_cq cmd = {};
	struct u4r_cq_resp resp = {};
	struct u4r_cq *cq;
	int ret;

	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	if (ibv_cmd_create_cq(ctx, entries, channel, vector, &cq->base.cq, &cmd,
			      sizeof(cmd), &resp.ibv, sizeof(resp)))
		goto free;
	ret = ring_map(&cq->ring, ctx->cmd_fd, resp.drv.ring_key, resp.drv.ring_bytes,
		       resp.drv.entries, sizeof(struct u4r_cqe));
	if (ret) {
		verbs_err(verbs_get_ctx(ctx), "completion queue not mapped: %d\n", ret);
		ibv_cmd_destroy_cq(&cq->base.cq);
		errno = ret;
		goto free;
	}
	pthread_spin_init(&cq->lock, PTHREAD_PROCESS_PRIVATE);
	return cq;

free:
	free(cq);
	return NULL;
}

struct ibv_cq *u4r_create_cq(struct ibv_context *ctx, int entries,
			     struct ibv_comp_channel *channel, int vector)
{
	struct u4r_cq *cq = u4r_make_cq(ctx, entries, channel, vector);

	return cq ? &cq->base.cq : NULL;
}

struct u4r_resize_resp {
	struct ib_uverbs_resize_cq_resp ibv;
	struct u4r_resize_cq_resp drv;
};

/* The lock is held over the system calls: between the kernel's change of rings and
 * ours nobody may poll the old ring or arm it. The kernel carries over the
 * completions, `cons` and `arm`, and the indices run on. */
int u4r_resize_cq(struct ibv_cq *ibcq, int entries)
{
	struct u4r_cq *cq = to_ucq(ibcq);
	struct u4r_resize_resp resp = {};
	struct ibv_resize_cq cmd = {};
	struct u4r_ring ring;
	int ret;

	pthread_spin_lock(&cq->lock);
	ret = ibv_cmd_resize_cq(ibcq, entries, &cmd, sizeof(cmd), &resp.ibv, sizeof(resp));
	if (!ret) {
		ret = ring_map(&ring, ibcq->context->cmd_fd, resp.drv.ring_key,
			       resp.drv.ring_bytes, resp.drv.entries, sizeof(struct u4r_cqe));
		if (!ret) {
			ring_unmap(&cq->ring);
			cq->ring = ring;
		}
	}
	pthread_spin_unlock(&cq->lock);
	return ret;
}

int u4r_destroy_cq(struct ibv_cq *ibcq)
{
	struct u4r_cq *cq = to_ucq(ibcq);
	int ret = ibv_cmd_destroy_cq(ibcq);

	/* Only now: the queue stays usable when the kernel refuses (EBUSY). */
	if (ret)
		return ret;
	ring_unmap(&cq->ring);
	pthread_spin_destroy(&cq->lock);
	free(cq);
	return 0;
}

/* The value of `valid` in the pass to which an index belongs. */
static inline uint32_t valid_word(const struct u4r_cq *cq, uint32_t index)
{
	return index & cq->ring.entries ? 2 : 1;
}

static inline struct u4r_cqe *valid_entry(const struct u4r_cq *cq, uint32_t index)
{
	struct u4r_cqe *cqe = ring_slot(&cq->ring, index);

	return ring_observe(&cqe->valid) == valid_word(cq, index) ? cqe : NULL;
}

unsigned int u4r_wc_flags(uint16_t flags)
{
	return (flags & U4R_WCF_GRH ? IBV_WC_GRH : 0) |
	       (flags & U4R_WCF_IMM ? IBV_WC_WITH_IMM : 0) |
	       (flags & U4R_WCF_INV ? IBV_WC_WITH_INV : 0);
}

const struct u4r_cqe *u4r_cq_take(struct u4r_cq *cq)
{
	const struct u4r_cqe *cqe;

	while ((cqe = valid_entry(cq, cq->next))) {
		cq->next++;
		if (likely(!(cqe->flags & U4R_WCF_FORGOTTEN)))
			break;
	}
	return cqe;
}

void u4r_cq_publish(struct u4r_cq *cq)
{
	ring_publish(&ring_user(&cq->ring)->cons, cq->next);
}

static inline void translate(const struct u4r_cqe *cqe, struct ibv_wc *wc)
{
	/* Opcodes and statuses have the verbs' own numbers in the ring. */
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = cqe->opcode;
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	wc->imm_data = cqe->imm;
	wc->qp_num = cqe->qpn;
	wc->src_qp = cqe->src_qpn;
	wc->wc_flags = u4r_wc_flags(cqe->flags);
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = 0;
	wc->dlid_path_bits = 0;
}

/* An overrun queue has lost entries and gets no more: polling must not look
 * like waiting. Looked at now and then only, because this word shares its line
 * with the kernel's index and a spinning program would keep stealing it. */
static bool overrun(struct u4r_cq *cq)
{
	return ++cq->idle_polls == 0 &&
	       ring_observe(&ring_kernel(&cq->ring)->state) == U4R_CQ_OVERRUN;
}

int u4r_poll_cq(struct ibv_cq *ibcq, int count, struct ibv_wc *wc)
{
	struct u4r_cq *cq = to_ucq(ibcq);
	const struct u4r_cqe *cqe;
	uint32_t start;
	int got = 0;

	pthread_spin_lock(&cq->lock);
	start = cq->next;
	while (got < count && (cqe = u4r_cq_take(cq)))
		translate(cqe, wc + got++);
	if (cq->next != start)
		u4r_cq_publish(cq);
	else if (unlikely(overrun(cq)))
		got = -EOVERFLOW;
	pthread_spin_unlock(&cq->lock);
	return got;
}

int u4r_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct u4r_cq *cq = to_ucq(ibcq);
	uint32_t kind;

	pthread_spin_lock(&cq->lock);
	/* A request for solicited completions must not weaken one for any
	 * completion that is still open. */
	if (!solicited_only)
		cq->any_pending = true;
	kind = cq->any_pending ? U4R_ARM_ANY : U4R_ARM_SOLICITED;
	cq->arm = (((cq->arm >> U4R_ARM_COUNT_SHIFT) + 1) << U4R_ARM_COUNT_SHIFT) | kind;
	ring_publish(&ring_user(&cq->ring)->arm, cq->arm);
	/* The caller polls once more after this, and that look must come later. */
	ring_publish_then_ask();
	pthread_spin_unlock(&cq->lock);
	return 0;
}

void u4r_cq_event(struct ibv_cq *ibcq)
{
	struct u4r_cq *cq = to_ucq(ibcq);

	pthread_spin_lock(&cq->lock);
	cq->any_pending = false;
	pthread_spin_unlock(&cq->lock);
}

void u4r_cq_forget(struct u4r_cq *cq, uint32_t qpn)
{
	struct u4r_cqe *cqe;
	uint32_t index;

	pthread_spin_lock(&cq->lock);
	for (index = cq->next; index - cq->next < cq->ring.entries &&
	     (cqe = valid_entry(cq, index)); index++) {
		if (cqe->qpn == qpn)
			cqe->flags |= U4R_WCF_FORGOTTEN;
	}
	pthread_spin_unlock(&cq->lock);
}
