/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * usb4_rdma's provider: its objects. The layout of what is shared with the
 * kernel is in usb4_rdma-abi.h, the protocol in Documentation/abi.md.
 *
 * Locks: none is taken while another one is held.
 *   u4r_qp.sq_lock  producers of the send queue
 *   u4r_qp.rq_lock  producers of the receive queue
 *   u4r_srq.lock    producers of a shared receive queue
 *   u4r_cq.lock     consumers of the completion queue
 */
#ifndef U4R_H
#define U4R_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
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

struct u4r_pd {
	struct ibv_pd base;
	/* A parent domain: a second name of this domain, with a thread domain or not.
	 * NULL for an ordinary one. */
	struct u4r_pd *parent;
	struct u4r_td *td;
	atomic_uint users;	/* parent domains of this one */
};

struct u4r_td {
	struct ibv_td base;
	atomic_uint users;	/* parent domains with it */
};

struct u4r_cq {
	struct verbs_cq base;
	pthread_spinlock_t lock;
	struct u4r_ring ring;
	uint32_t next;		/* index of the next entry to read */
	uint32_t arm;		/* the last word stored to the ring's arm */
	bool any_pending;	/* armed for any completion, no event seen since */
	uint8_t idle_polls;	/* wraps: how often polling found nothing */
	const struct u4r_cqe *current;	/* of the extended interface */
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
	/* Between wr_start and wr_complete: */
	uint32_t wr_first;	/* where the batch begins */
	int wr_error;		/* the first error in it */
	struct u4r_sqe *wr_sqe;	/* the entry at hand; NULL: none */

	pthread_spinlock_t rq_lock;
	struct u4r_ring rq;
	uint32_t rq_prod;
	uint32_t rq_cons;
};

struct u4r_srq {
	struct ibv_srq base;
	pthread_spinlock_t lock;
	struct u4r_ring ring;
	uint32_t max_sge;
	uint32_t prod;		/* own copy: the mapped one is only ever written */
	uint32_t cons;		/* the kernel's index as last read */
};

static inline struct u4r_context *to_uctx(struct ibv_context *ctx)
{
	return container_of(ctx, struct u4r_context, base.context);
}

static inline struct u4r_pd *to_updomain(struct ibv_pd *pd)
{
	return container_of(pd, struct u4r_pd, base);
}

static inline struct u4r_cq *to_ucq(struct ibv_cq *cq)
{
	return container_of(cq, struct u4r_cq, base.cq);
}

static inline struct u4r_qp *to_uqp(struct ibv_qp *qp)
{
	return container_of(qp, struct u4r_qp, base.qp);
}

static inline struct u4r_srq *to_usrq(struct ibv_srq *srq)
{
	return container_of(srq, struct u4r_srq, base);
}

/* u4r_mem.c: memory regions */
struct ibv_mr *u4r_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			  uint64_t iova, int access);
struct ibv_mr *u4r_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				 uint64_t iova, int fd, int access);
int u4r_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr,
		 size_t length, int access);
int u4r_dereg_mr(struct verbs_mr *vmr);

/* u4r_cq.c */
struct u4r_cq *u4r_make_cq(struct ibv_context *ctx, int entries,
			   struct ibv_comp_channel *channel, int vector);
/* The next entry that is to be reported, or NULL. Under the lock. */
const struct u4r_cqe *u4r_cq_take(struct u4r_cq *cq);
/* Tells the kernel how far we are. Under the lock. */
void u4r_cq_publish(struct u4r_cq *cq);
/* Verbs' flags of an entry's. */
unsigned int u4r_wc_flags(uint16_t flags);
struct ibv_cq *u4r_create_cq(struct ibv_context *ctx, int entries,
			     struct ibv_comp_channel *channel, int vector);
int u4r_resize_cq(struct ibv_cq *ibcq, int entries);
int u4r_destroy_cq(struct ibv_cq *ibcq);
int u4r_poll_cq(struct ibv_cq *ibcq, int count, struct ibv_wc *wc);
int u4r_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
void u4r_cq_event(struct ibv_cq *ibcq);
/* Makes polling skip what the completion queue still holds of a queue pair. */
void u4r_cq_forget(struct u4r_cq *cq, uint32_t qpn);

/* u4r_cqex.c */
struct ibv_cq_ex *u4r_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);

/* u4r_pd.c: protection, thread and parent domains */
struct ibv_pd *u4r_alloc_pd(struct ibv_context *ctx);
int u4r_dealloc_pd(struct ibv_pd *pd);
struct ibv_td *u4r_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr);
int u4r_dealloc_td(struct ibv_td *td);
struct ibv_pd *u4r_alloc_parent_domain(struct ibv_context *ctx,
				       struct ibv_parent_domain_init_attr *attr);

/* u4r_mw.c */
struct ibv_mw *u4r_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int u4r_dealloc_mw(struct ibv_mw *mw);
int u4r_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/* The members of a bind request; rkey is the window's new key. */
void u4r_fill_bind(struct u4r_sqe *sqe, const struct ibv_mw *mw, uint32_t rkey,
		   const struct ibv_mw_bind_info *info);

/* u4r_qp.c */
struct ibv_qp *u4r_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *u4r_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
int u4r_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask);
int u4r_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init);
int u4r_destroy_qp(struct ibv_qp *ibqp);

/* u4r_srq.c */
struct ibv_srq *u4r_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int u4r_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask);
int u4r_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr);
int u4r_destroy_srq(struct ibv_srq *ibsrq);
int u4r_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr);

/* u4r_wr.c: the extended way to post */
/* Whether all operations asked for are there: 0 or an errno. */
int u4r_wr_check(const struct ibv_qp_init_attr_ex *attr);
void u4r_wr_setup(struct u4r_qp *qp);

/* u4r_post.c */
void u4r_copy_sges(struct u4r_sge *to, const struct ibv_sge *from, int count);
uint8_t u4r_send_flags(const struct u4r_qp *qp, unsigned int flags);
/* Under the send lock: is there no slot for another entry? */
bool u4r_sq_full(struct u4r_qp *qp);
/* Publishes the entries from start to sq_prod, lets the send lock go, and wakes the
 * kernel if it sleeps. An errno: that failed and the entries have been taken back. */
int u4r_ring_sends(struct u4r_qp *qp, uint32_t start);
/* Fills a receive entry. Returns 0 or EINVAL for more than max_sge pieces. */
int u4r_fill_recv(struct u4r_rqe *rqe, const struct ibv_recv_wr *wr, uint32_t max_sge);
int u4r_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad_wr);
int u4r_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad_wr);

#endif
