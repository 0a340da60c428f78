/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * usb4_rdma's provider: its objects. The layout of what is shared with the
 * kernel is in usb4_rdma-abi.h, the protocol in Documentation/abi.md.
 *
 * Locks: none is taken while another one is held.
 *   u4r_qp.sq_lock  producers of the send queue
 *   u4r_qp.rq_lock  producers of the receive queue
 *   u4r_cq.lock     consumers of the completion queue
 */
#ifndef U4R_H
#define U4R_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "u4r_compat.h"
#include "u4r_ring.h"
#include "usb4_rdma-abi.h"

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

struct u4r_context {
	struct verbs_context base;
	uint32_t max_sge;
	uint32_t max_inline;
};

struct u4r_cq {
	struct verbs_cq base;
	pthread_spinlock_t lock;
	struct u4r_ring ring;
	uint32_t next;		/* index of the next entry to read */
	uint32_t arm;		/* the last word stored to the ring's arm */
	bool any_pending;	/* armed for any completion, no event seen since */
	uint8_t idle_polls;	/* wraps: how often polling found nothing */
};

/* The system call that wakes the kernel, ready to be written: "post_send" of
 * the uverbs character device with no work request in it. */
struct u4r_doorbell {
	struct ib_uverbs_cmd_hdr hdr;
	struct ib_uverbs_post_send cmd;
};

struct u4r_qp {
	struct verbs_qp base;
	struct u4r_doorbell doorbell;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
	bool sq_sig_all;

	pthread_spinlock_t sq_lock;
	struct u4r_ring sq;
	uint32_t sq_prod;	/* own copy: the mapped one is only ever written */
	uint32_t sq_cons;	/* the kernel's index as last read */

	pthread_spinlock_t rq_lock;
	struct u4r_ring rq;
	uint32_t rq_prod;
	uint32_t rq_cons;
};

static inline struct u4r_context *to_uctx(struct ibv_context *ctx)
{
	return container_of(ctx, struct u4r_context, base.context);
}

static inline struct u4r_cq *to_ucq(struct ibv_cq *cq)
{
	return container_of(cq, struct u4r_cq, base.cq);
}

static inline struct u4r_qp *to_uqp(struct ibv_qp *qp)
{
	return container_of(qp, struct u4r_qp, base.qp);
}

/* u4r_mem.c: protection domains and memory regions */
struct ibv_pd *u4r_alloc_pd(struct ibv_context *ctx);
int u4r_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *u4r_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			  uint64_t iova, int access);
int u4r_dereg_mr(struct verbs_mr *vmr);

/* u4r_cq.c */
struct ibv_cq *u4r_create_cq(struct ibv_context *ctx, int entries,
			     struct ibv_comp_channel *channel, int vector);
int u4r_destroy_cq(struct ibv_cq *ibcq);
int u4r_poll_cq(struct ibv_cq *ibcq, int count, struct ibv_wc *wc);
int u4r_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
void u4r_cq_event(struct ibv_cq *ibcq);
/* Makes polling skip what the completion queue still holds of a queue pair. */
void u4r_cq_forget(struct u4r_cq *cq, uint32_t qpn);

/* u4r_qp.c */
struct ibv_qp *u4r_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int u4r_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask);
int u4r_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init);
int u4r_destroy_qp(struct ibv_qp *ibqp);

/* u4r_post.c */
int u4r_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad_wr);
int u4r_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad_wr);

#endif
