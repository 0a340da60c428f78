// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Shared receive queues: a mapped ring of receive entries, as a queue pair's own.
 * Posting never needs a system call: a sender that met no entry asks again.
 */
#include <stdlib.h>

#include "u4r.h"

struct u4r_srq_resp {
	struct ib_uverbs_create_srq_resp ibv;
	struct u4r_create_srq_resp drv;
};

struct ibv_srq *u4r_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_create_srq cmd = {};
	struct u4r_srq_resp resp = {};
	struct u4r_srq *srq;
	int ret;

	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;
	if (ibv_cmd_create_srq(pd, &srq->base, attr, &cmd, sizeof(cmd), &resp.ibv,
			       sizeof(resp)))
		goto free;
	/* The kernel has put into attr what the queue really has. */
	srq->max_sge = attr->attr.max_sge;
	if (resp.drv.rq_stride < sizeof(struct u4r_rqe) +
				 srq->max_sge * sizeof(struct u4r_sge))
		ret = EPROTO;
	else
		ret = ring_map(&srq->ring, pd->context->cmd_fd, resp.drv.rq_key,
			       resp.drv.rq_bytes, resp.drv.rq_entries, resp.drv.rq_stride);
	if (ret) {
		verbs_err(verbs_get_ctx(pd->context), "shared queue not mapped: %d\n", ret);
		ibv_cmd_destroy_srq(&srq->base);
		errno = ret;
		goto free;
	}
	pthread_spin_init(&srq->lock, PTHREAD_PROCESS_PRIVATE);
	return &srq->base;

free:
	free(srq);
	return NULL;
}

int u4r_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct u4r_srq *srq = to_usrq(ibsrq);
	struct u4r_create_srq_resp resp = {};
	struct {
		struct ibv_modify_srq ibv;
		struct u4r_modify_srq_req drv;
	} cmd = { .drv = { .response = (uintptr_t)&resp } };
	struct u4r_ring ring;
	int ret;

	/* As for completion queues: between the kernel's change of rings and ours
	 * nobody may post into the old one. The kernel carries over what waits. */
	pthread_spin_lock(&srq->lock);
	ret = ibv_cmd_modify_srq(ibsrq, attr, mask, &cmd.ibv, sizeof(cmd));
	if (resp.rq_key) {
		int mapped = ring_map(&ring, ibsrq->context->cmd_fd, resp.rq_key, resp.rq_bytes,
				      resp.rq_entries, resp.rq_stride);

		if (!mapped) {
			ring_unmap(&srq->ring);
			srq->ring = ring;
			srq->cons = ring_observe(&ring_kernel(&ring)->cons);
		} else {
			ret = mapped;
		}
	}
	pthread_spin_unlock(&srq->lock);
	return ret;
}

int u4r_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq cmd = {};

	return ibv_cmd_query_srq(ibsrq, attr, &cmd, sizeof(cmd));
}

int u4r_destroy_srq(struct ibv_srq *ibsrq)
{
	struct u4r_srq *srq = to_usrq(ibsrq);
	int ret = ibv_cmd_destroy_srq(ibsrq);

	/* Only now: the queue stays usable when the kernel refuses (EBUSY). */
	if (ret)
		return ret;
	ring_unmap(&srq->ring);
	pthread_spin_destroy(&srq->lock);
	free(srq);
	return 0;
}

static bool srq_full(struct u4r_srq *srq)
{
	if (likely(srq->prod - srq->cons < srq->ring.entries))
		return false;
	srq->cons = ring_observe(&ring_kernel(&srq->ring)->cons);
	return srq->prod - srq->cons >= srq->ring.entries;
}

int u4r_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr)
{
	struct u4r_srq *srq = to_usrq(ibsrq);
	uint32_t start;
	int ret = 0;

	pthread_spin_lock(&srq->lock);
	start = srq->prod;
	for (; wr; wr = wr->next) {
		ret = srq_full(srq) ? ENOMEM :
				      u4r_fill_recv(ring_slot(&srq->ring, srq->prod), wr,
						    srq->max_sge);
		if (unlikely(ret)) {
			*bad_wr = wr;
			break;
		}
		srq->prod++;
	}
	if (srq->prod != start)
		ring_publish(&ring_user(&srq->ring)->prod, srq->prod);
	pthread_spin_unlock(&srq->lock);
	return ret;
}
