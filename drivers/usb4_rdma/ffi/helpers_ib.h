/* SPDX-License-Identifier: GPL-2.0 */
/* Verbs side: see helpers_ib.c. */
#ifndef U4R_HELPERS_IB_H
#define U4R_HELPERS_IB_H

#include <rdma/ib_verbs.h>
#include <rdma/ib_umem.h>

/* One line per type whose layout Rust relies on. */
struct u4r_ib_sizes {
	size_t device;
	size_t device_ops;
	size_t ucontext;
	size_t pd;
	size_t cq;
	size_t qp;
	size_t srq;
	size_t mr;
	size_t mw;
	size_t wc;
	size_t send_wr;
	size_t qp_attr;
};

void u4r_ib_sizes(struct u4r_ib_sizes *sizes);
void u4r_ib_allow_post_send(struct ib_device *device);
void u4r_ib_set_parent(struct ib_device *device, struct device *parent);
void u4r_ib_fix_name(struct ib_device *device);
const char *u4r_ib_name(const struct ib_device *device);
const u8 *u4r_netdev_mac(const struct net_device *netdev);
bool u4r_netdev_running(const struct net_device *netdev);
struct ib_ucontext *u4r_udata_context(struct ib_udata *udata);
struct ib_udata *u4r_bundle_udata(struct uverbs_attr_bundle *attrs);
int u4r_udata_in(struct ib_udata *udata, void *to, size_t length);
int u4r_copy_to_user(u64 to, const void *from, size_t length);
/* A mapped DMA buffer: helpers_dmabuf.c. */
struct u4r_dmabuf {
	void *buf;
	void *attachment;
	void *table;
	void *base;
	void *address;
};

int u4r_dmabuf_get(struct ib_device *device, int fd, u64 offset, u64 length,
		   struct u4r_dmabuf *out);
void u4r_dmabuf_put(struct u4r_dmabuf *held);
struct ib_umem *u4r_umem_get(struct ib_device *device, unsigned long addr,
			     size_t length, int access);
bool u4r_umem_pages(struct ib_umem *umem, unsigned long *table, size_t pages);
bool u4r_gid_is_local(struct ib_device *device, const union ib_gid *gid);
void u4r_qp_event(struct ib_qp *qp, unsigned int event);
void u4r_srq_event(struct ib_srq *srq, unsigned int event);
void u4r_cq_event(struct ib_cq *cq, unsigned int event);
void u4r_cq_complete(struct ib_cq *cq);
void u4r_port_event(struct ib_device *device, unsigned int event);
void *u4r_ring_alloc(size_t bytes);
void u4r_ring_free(void *ring);
int u4r_ring_map(struct vm_area_struct *vma, void *ring);
u32 u4r_random(void);
bool u4r_cmpxchg64(u64 *word, u64 *old, u64 new);
u64 u4r_fetch_add64(u64 *word, u64 add);

#endif
