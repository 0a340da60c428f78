// SPDX-License-Identifier: GPL-2.0
/* C helpers of the verbs side: static inlines, macros, and version differences. */
#include "helpers_ib.h"

#include <linux/netdevice.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/vmalloc.h>
#include <rdma/ib_cache.h>
#include <rdma/uverbs_ioctl.h>

/* Layout guards: compared with bindgen's idea of the same types at load time. */
void u4r_ib_sizes(struct u4r_ib_sizes *sizes)
{
	*sizes = (struct u4r_ib_sizes) {
		.device = sizeof(struct ib_device),
		.device_ops = sizeof(struct ib_device_ops),
		.ucontext = sizeof(struct ib_ucontext),
		.pd = sizeof(struct ib_pd),
		.cq = sizeof(struct ib_cq),
		.qp = sizeof(struct ib_qp),
		.srq = sizeof(struct ib_srq),
		.mr = sizeof(struct ib_mr),
		.mw = sizeof(struct ib_mw),
		.wc = sizeof(struct ib_wc),
		.send_wr = sizeof(struct ib_send_wr),
		.qp_attr = sizeof(struct ib_qp_attr),
	};
}

/* The doorbell is a post_send without work requests; off by default. */
void u4r_ib_allow_post_send(struct ib_device *device)
{
	device->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND);
}

void u4r_ib_set_parent(struct ib_device *device, struct device *parent)
{
	device->dev.parent = parent;
}

/* udev renames kernel-named devices to rocepXsY; this one keeps its name. */
void u4r_ib_fix_name(struct ib_device *device)
{
	ib_mark_name_assigned_by_user(device);
}

const char *u4r_ib_name(const struct ib_device *device)
{
	return dev_name(&device->dev);
}

const u8 *u4r_netdev_mac(const struct net_device *netdev)
{
	return netdev->dev_addr;
}

bool u4r_netdev_running(const struct net_device *netdev)
{
	return netif_running(netdev);
}

/* NULL for a kernel user. */
struct ib_ucontext *u4r_udata_context(struct ib_udata *udata)
{
	if (!udata)
		return NULL;
	return rdma_udata_to_uverbs_attr_bundle(udata)->context;
}

struct ib_udata *u4r_bundle_udata(struct uverbs_attr_bundle *attrs)
{
	return attrs ? &attrs->driver_udata : NULL;
}

/* What a program's provider sent along with a command; all of it or an error. */
int u4r_udata_in(struct ib_udata *udata, void *to, size_t length)
{
	if (!udata || udata->inlen < length)
		return -EINVAL;
	return ib_copy_from_udata(to, udata, length);
}

int u4r_copy_to_user(u64 to, const void *from, size_t length)
{
	return copy_to_user(u64_to_user_ptr(to), from, length) ? -EFAULT : 0;
}

struct ib_umem *u4r_umem_get(struct ib_device *device, unsigned long addr,
			     size_t length, int access)
{
	return ib_umem_get_va(device, addr, length, access);
}

/*
 * Fills table with the kernel addresses of the first pages of umem. False if
 * it has fewer, or a page without a kernel address.
 */
bool u4r_umem_pages(struct ib_umem *umem, unsigned long *table, size_t pages)
{
	struct sg_page_iter iter;
	size_t i = 0;

	for_each_sgtable_page(&umem->sgt_append.sgt, &iter, 0) {
		if (i == pages)
			break;
		table[i] = (unsigned long)page_address(sg_page_iter_page(&iter));
		if (!table[i++])
			return false;
	}
	return i == pages;
}

bool u4r_gid_is_local(struct ib_device *device, const union ib_gid *gid)
{
	const struct ib_gid_attr *attr;

	attr = rdma_find_gid_by_port(device, gid, IB_GID_TYPE_ROCE_UDP_ENCAP, 1,
				     NULL);
	if (IS_ERR(attr))
		return false;
	rdma_put_gid_attr(attr);
	return true;
}

void u4r_qp_event(struct ib_qp *qp, unsigned int type)
{
	struct ib_event event = {
		.device = qp->device,
		.element.qp = qp,
		.event = type,
	};

	if (qp->event_handler)
		qp->event_handler(&event, qp->qp_context);
}

void u4r_srq_event(struct ib_srq *srq, unsigned int type)
{
	struct ib_event event = {
		.device = srq->device,
		.element.srq = srq,
		.event = type,
	};

	if (srq->event_handler)
		srq->event_handler(&event, srq->srq_context);
}

void u4r_cq_event(struct ib_cq *cq, unsigned int type)
{
	struct ib_event event = {
		.device = cq->device,
		.element.cq = cq,
		.event = type,
	};

	if (cq->event_handler)
		cq->event_handler(&event, cq->cq_context);
}

void u4r_cq_complete(struct ib_cq *cq)
{
	if (cq->comp_handler)
		cq->comp_handler(cq, cq->cq_context);
}

void u4r_port_event(struct ib_device *device, unsigned int type)
{
	struct ib_event event = {
		.device = device,
		.element.port_num = 1,
		.event = type,
	};

	ib_dispatch_event(&event);
	/* Handlers run from there. The device may be unregistered next, which takes
	 * programs' handlers away: they would never hear of the event. */
	flush_workqueue(ib_wq);
}

/* Zeroed, and on nobody's memlock account. */
void *u4r_ring_alloc(size_t bytes)
{
	return vmalloc_user(bytes);
}

void u4r_ring_free(void *ring)
{
	vfree(ring);
}

int u4r_ring_map(struct vm_area_struct *vma, void *ring)
{
	return remap_vmalloc_range(vma, ring, 0);
}

u32 u4r_random(void)
{
	return get_random_u32();
}

/* True if *word was *old and is new now; *old receives what it was. */
bool u4r_cmpxchg64(u64 *word, u64 *old, u64 new)
{
	return try_cmpxchg64(word, old, new);
}

u64 u4r_fetch_add64(u64 *word, u64 add)
{
	u64 old = READ_ONCE(*word);

	while (!try_cmpxchg64(word, &old, old + add))
		;
	return old;
}
