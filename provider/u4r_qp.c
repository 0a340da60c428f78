// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Queue pairs: making, changing and ending them. Posting is in u4r_post.c.
 */
#include <stdlib.h>

#include "u4r.h"

struct u4r_qp_resp {
	struct ib_uverbs_create_qp_resp ibv;
	struct u4r_create_qp_resp drv;
};

/* The answer to the doorbell says which request was bad; there is none in it,
 * so one place for all of them will do. */
static struct ib_uverbs_post_send_resp ignored_answer;

static void prepare_doorbell(struct u4r_qp *qp)
{
	qp->doorbell = (struct u4r_doorbell){
		.hdr = {
			.command = IB_USER_VERBS_CMD_POST_SEND,
			.in_words = sizeof(qp->doorbell) / 4,
			.out_words = sizeof(ignored_answer) / 4,
		},
		.cmd = {
			.response = (uintptr_t)&ignored_answer,
			.qp_handle = qp->base.qp.handle,
			.wqe_size = sizeof(struct ib_uverbs_send_wr),
		},
	};
}

static int map_rings(struct u4r_qp *qp, int fd, const struct u4r_create_qp_resp *resp)
{
	int ret;

	if (resp->sq_stride < sizeof(struct u4r_sqe) + qp->max_inline ||
	    resp->sq_stride < sizeof(struct u4r_sqe) +
			      qp->max_send_sge * sizeof(struct u4r_sge))
		return EPROTO;
	ret = ring_map(&qp->sq, fd, resp->sq_key, resp->sq_bytes, resp->sq_entries,
		       resp->sq_stride);
	if (ret || !resp->rq_key)
		return ret;
	if (resp->rq_stride < sizeof(struct u4r_rqe) +
			      qp->max_recv_sge * sizeof(struct u4r_sge))
		ret = EPROTO;
	else
		ret = ring_map(&qp->rq, fd, resp->rq_key, resp->rq_bytes,
			       resp->rq_entries, resp->rq_stride);
	if (ret)
		ring_unmap(&qp->sq);
	return ret;
}

/* What follows when the kernel has made the queue pair and said in cap what it
 * really has. Destroys it if the rings cannot be mapped. Returns 0 or an errno. */
static int set_up(struct u4r_qp *qp, struct ibv_context *ctx, struct ibv_qp_cap *cap,
		  int sq_sig_all, const struct u4r_create_qp_resp *resp)
{
	int ret;

	qp->max_send_sge = cap->max_send_sge;
	qp->max_recv_sge = cap->max_recv_sge;
	qp->max_inline = resp->max_inline;
	cap->max_inline_data = qp->max_inline;
	qp->sq_sig_all = sq_sig_all;
	prepare_doorbell(qp);
	ret = map_rings(qp, ctx->cmd_fd, resp);
	if (ret) {
		verbs_err(verbs_get_ctx(ctx), "queues not mapped: %d\n", ret);
		ibv_cmd_destroy_qp(&qp->base.qp);
		return ret;
	}
	pthread_spin_init(&qp->sq_lock, PTHREAD_PROCESS_PRIVATE);
	pthread_spin_init(&qp->rq_lock, PTHREAD_PROCESS_PRIVATE);
	return 0;
}

struct ibv_qp *u4r_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_create_qp cmd = {};
	struct u4r_qp_resp resp = {};
	struct u4r_qp *qp;
	int ret;

	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	if (ibv_cmd_create_qp(pd, &qp->base.qp, attr, &cmd, sizeof(cmd), &resp.ibv,
			      sizeof(resp)))
		goto free;
	ret = set_up(qp, pd->context, &attr->cap, attr->sq_sig_all, &resp.drv);
	if (!ret)
		return &qp->base.qp;
	errno = ret;
free:
	free(qp);
	return NULL;
}

/* Creation flags may be given, if none is set. */
#define SUPPORTED_MASK	(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |	\
			 IBV_QP_INIT_ATTR_CREATE_FLAGS)

struct ibv_qp *u4r_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	bool extended = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	uint32_t mask = attr->comp_mask;
	struct ibv_create_qp cmd = {};
	struct u4r_qp_resp resp = {};
	struct u4r_qp *qp;
	int ret;

	ret = attr->comp_mask & ~SUPPORTED_MASK ||
	      (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags) ?
	      EOPNOTSUPP : 0;
	if (!ret && extended)
		ret = u4r_wr_check(attr);
	if (ret) {
		errno = ret;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	/* libibverbs' own function knows of no flags. */
	attr->comp_mask &= ~IBV_QP_INIT_ATTR_CREATE_FLAGS;
	ret = ibv_cmd_create_qp_ex(ctx, &qp->base, attr, &cmd, sizeof(cmd), &resp.ibv,
				   sizeof(resp));
	attr->comp_mask = mask;
	if (ret)
		goto free;
	ret = set_up(qp, ctx, &attr->cap, attr->sq_sig_all, &resp.drv);
	if (ret) {
		errno = ret;
		goto free;
	}
	if (extended)
		u4r_wr_setup(qp);
	return &qp->base.qp;

free:
	free(qp);
	return NULL;
}

static void forget_completions(struct u4r_qp *qp)
{
	struct ibv_qp *ibqp = &qp->base.qp;

	u4r_cq_forget(to_ucq(ibqp->recv_cq), ibqp->qp_num);
	if (ibqp->send_cq != ibqp->recv_cq)
		u4r_cq_forget(to_ucq(ibqp->send_cq), ibqp->qp_num);
}

/* The kernel has emptied both queues by moving its own indices (or by moving
 * both): take over from where it stands. */
static void follow_reset(struct u4r_qp *qp)
{
	pthread_spin_lock(&qp->sq_lock);
	qp->sq_cons = qp->sq_prod = ring_observe(&ring_kernel(&qp->sq)->cons);
	ring_publish(&ring_user(&qp->sq)->prod, qp->sq_prod);
	pthread_spin_unlock(&qp->sq_lock);
	if (!qp->rq.map)
		return;
	pthread_spin_lock(&qp->rq_lock);
	qp->rq_cons = qp->rq_prod = ring_observe(&ring_kernel(&qp->rq)->cons);
	ring_publish(&ring_user(&qp->rq)->prod, qp->rq_prod);
	pthread_spin_unlock(&qp->rq_lock);
}

int u4r_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct u4r_qp *qp = to_uqp(ibqp);
	struct ibv_modify_qp cmd = {};
	int ret;

	ret = ibv_cmd_modify_qp(ibqp, attr, mask, &cmd, sizeof(cmd));
	if (!ret && mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET) {
		follow_reset(qp);
		forget_completions(qp);
	}
	return ret;
}

int u4r_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct ibv_query_qp cmd = {};

	return ibv_cmd_query_qp(ibqp, attr, mask, init, &cmd, sizeof(cmd));
}

int u4r_destroy_qp(struct ibv_qp *ibqp)
{
	struct u4r_qp *qp = to_uqp(ibqp);
	int ret = ibv_cmd_destroy_qp(ibqp);

	if (ret)
		return ret;
	/* No new ones can come now, and the kernel gives numbers out in turn, so
	 * these cannot be another queue pair's. */
	forget_completions(qp);
	ring_unmap(&qp->sq);
	ring_unmap(&qp->rq);
	pthread_spin_destroy(&qp->sq_lock);
	pthread_spin_destroy(&qp->rq_lock);
	free(qp);
	return 0;
}
