// SPDX-License-Identifier: GPL-2.0
/* C helpers of the thunderbolt side: static inlines, bit-fields, list walks. */
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/utsname.h>
#include <net/net_namespace.h>
#include "helpers_tb.h"

/* Layout guards: compared with bindgen's idea of the same types at load time. */
size_t u4r_sizeof_tb_ring(void)
{
	return sizeof(struct tb_ring);
}

size_t u4r_sizeof_tb_xdomain(void)
{
	return sizeof(struct tb_xdomain);
}

/*
 * A buffer of one frame, mapped for the device if there is one. kmalloc aligns
 * powers of two to their size, so no frame crosses a page, and with 16 KiB pages
 * none is wasted.
 */
void *u4r_frame_alloc(struct device *dev, bool to_device, dma_addr_t *dma)
{
	int node = dev ? dev_to_node(dev) : NUMA_NO_NODE;
	void *data = kzalloc_node(U4R_FRAME_SIZE, GFP_KERNEL, node);

	if (!data || !dev)
		return data;
	*dma = dma_map_single(dev, data, U4R_FRAME_SIZE,
			      to_device ? DMA_TO_DEVICE : DMA_FROM_DEVICE);
	if (dma_mapping_error(dev, *dma)) {
		kfree(data);
		return NULL;
	}
	return data;
}

void u4r_frame_unmap(struct device *dev, bool to_device, dma_addr_t dma)
{
	dma_unmap_single(dev, dma, U4R_FRAME_SIZE,
			 to_device ? DMA_TO_DEVICE : DMA_FROM_DEVICE);
}

void u4r_frame_free(void *data)
{
	kfree(data);
}

void u4r_frame_for_device(struct device *dev, bool to_device, dma_addr_t dma, size_t len)
{
	dma_sync_single_for_device(dev, dma, len, to_device ? DMA_TO_DEVICE : DMA_FROM_DEVICE);
}

void u4r_frame_for_cpu(struct device *dev, dma_addr_t dma, size_t len)
{
	dma_sync_single_for_cpu(dev, dma, len, DMA_FROM_DEVICE);
}

/* Start- and end-of-frame markers of the wire protocol (Documentation/wire.md). */
#define U4R_SOF	1
#define U4R_EOF	2

/* Transmit rings take no interrupt: whoever needs buffers reaps them. */
struct tb_ring *u4r_ring_alloc_tx(struct tb_nhi *nhi, int size)
{
	return tb_ring_alloc_tx(nhi, -1, size, RING_FLAG_FRAME | RING_FLAG_NO_INTERRUPT);
}

struct tb_ring *u4r_ring_alloc_rx(struct tb_nhi *nhi, int size, int tx_hop,
				  unsigned int moderation_ns)
{
	struct tb_ring *ring;

	ring = tb_ring_alloc_rx(nhi, -1, size, RING_FLAG_FRAME, tx_hop, BIT(U4R_SOF),
				BIT(U4R_EOF), NULL, NULL);
	if (ring)
		tb_ring_throttling(ring, moderation_ns);
	return ring;
}

int u4r_ring_send(struct tb_ring *ring, struct ring_frame *frame, size_t len)
{
	frame->size = len & (U4R_FRAME_SIZE - 1);	/* 0 means 4096 */
	frame->sof = U4R_SOF;
	frame->eof = U4R_EOF;
	return tb_ring_tx(ring, frame);
}

int u4r_ring_post(struct tb_ring *ring, struct ring_frame *frame)
{
	return tb_ring_rx(ring, frame);
}

void u4r_frame_result(const struct ring_frame *frame, u32 *len, u32 *flags)
{
	*len = tb_ring_frame_size(frame);
	*flags = frame->flags;
}

void u4r_ring_frame_init(struct ring_frame *frame, dma_addr_t dma, ring_cb callback)
{
	memset(frame, 0, sizeof(*frame));
	INIT_LIST_HEAD(&frame->list);
	frame->buffer_phy = dma;
	frame->callback = callback;
}

/* Where the ring's worker stands: it moves only between batches of callbacks. */
int u4r_ring_tail(struct tb_ring *ring)
{
	return READ_ONCE(ring->tail);
}

/* The descriptor's second half, as the host interface writes it. */
struct u4r_descriptor {
	u64 address;
	u32 status;	/* length 11:0, eof 15:12, sof 19:16, flags 31:20 */
	u32 time;
};

/*
 * The supplemental poll: a frame that lies completed although no interrupt came
 * is handed to the ring's own worker. That it has only one worker keeps frames in
 * order, so nothing is taken from the ring here; and the work must go to the
 * queue that the interrupt uses, or it could run twice at once.
 */
bool u4r_ring_poke(struct tb_ring *ring)
{
	const struct u4r_descriptor *desc = (const void *)READ_ONCE(ring->descriptors);
	int tail = READ_ONCE(ring->tail);

	if (tail == READ_ONCE(ring->head))
		return false;
	if (!(READ_ONCE(desc[tail].status) >> 20 & RING_DESC_COMPLETED))
		return false;
	return schedule_work(&ring->work);
}

/* Waits for callbacks that are queued or running. */
void u4r_ring_quiesce(struct tb_ring *ring)
{
	flush_work(&ring->work);
}

/* Hop 0 is the control channel; a pair needs not have the same number. */
unsigned int u4r_nhi_free_pairs(struct tb_nhi *nhi)
{
	unsigned int hop, tx = 0, rx = 0;

	spin_lock_irq(&nhi->lock);
	for (hop = 1; hop < nhi->hop_count; hop++) {
		tx += !nhi->tx_rings[hop];
		rx += !nhi->rx_rings[hop];
	}
	spin_unlock_irq(&nhi->lock);
	return min(tx, rx);
}

/* With a reference. */
struct tb_xdomain *u4r_service_xdomain(struct tb_service *svc)
{
	return tb_xdomain_get(tb_service_parent(svc));
}

void u4r_peer_name(struct tb_xdomain *xd, char *name, size_t len)
{
	mutex_lock(&xd->lock);
	snprintf(name, len, "%s %s", xd->vendor_name ?: "unknown", xd->device_name ?: "host");
	mutex_unlock(&xd->lock);
}

const char *u4r_xdomain_dev_name(struct tb_xdomain *xd)
{
	return dev_name(&xd->dev);
}

struct tb_nhi *u4r_xdomain_nhi(struct tb_xdomain *xd)
{
	return xd->tb->nhi;
}

/*
 * Sends a message and does not wait: the answer, if there is one, comes to the
 * protocol handler as a message of its own. A blocking request would tie up the
 * peer's only control ring for as long as it thinks.
 */
int u4r_xdomain_send(struct tb_xdomain *xd, const void *message, size_t len)
{
	return tb_xdomain_response(xd, message, len, TB_CFG_PKG_XDOMAIN_REQ);
}

/* A cable that is gone is not worth waiting for the domain's lock. */
int u4r_enable_paths(struct tb_xdomain *xd, int tx_path, int tx_ring, int rx_path, int rx_ring)
{
	if (READ_ONCE(xd->is_unplugged))
		return -ENODEV;
	return tb_xdomain_enable_paths(xd, tx_path, tx_ring, rx_path, rx_ring);
}

/* What the peer's thunderbolt core reads about our service; NULL without memory. */
struct tb_property_dir *u4r_properties(const uuid_t *uuid, u32 version, u32 capabilities)
{
	struct tb_property_dir *dir = tb_property_create_dir(uuid);

	if (!dir)
		return NULL;
	if (tb_property_add_immediate(dir, "prtcid", 1) ||
	    tb_property_add_immediate(dir, "prtcvers", version) ||
	    tb_property_add_immediate(dir, "prtcrevs", 1) ||
	    tb_property_add_immediate(dir, "prtcstns", capabilities)) {
		tb_property_free_dir(dir);
		return NULL;
	}
	return dir;
}

/* This host's name, to introduce itself with. */
void u4r_host_name(char *name, size_t len)
{
	strscpy(name, init_utsname()->nodename, len);
}

static int u4r_match_domain(struct device *dev, void *data)
{
	return dev->type && dev->type->name && !strcmp(dev->type->name, "thunderbolt_domain");
}

/* Is there a host router with a driver? The bus is found through our driver. */
bool u4r_domain_present(const struct tb_service_driver *driver)
{
	return bus_for_each_dev(driver->driver.bus, NULL, NULL, u4r_match_domain) != 0;
}

/* Waits until every thread has slept or run in user space once. */
void u4r_quiesce_callbacks(void)
{
	synchronize_rcu_tasks();
}

/* thunderbolt-net makes the service its interface's parent: no name is needed. */
static struct tb_xdomain *u4r_netdev_xdomain(struct net_device *dev)
{
	struct device *parent = dev->dev.parent;

	if (!parent || !tb_is_service(parent))
		return NULL;
	return tb_service_parent(tb_to_service(parent));
}

/* With a reference, from whatever network namespace. */
struct net_device *u4r_find_netdev(struct tb_xdomain *xd)
{
	struct net_device *dev;
	struct net *net;

	rcu_read_lock();
	for_each_net_rcu(net) {
		for_each_netdev_rcu(net, dev) {
			if (dev->reg_state == NETREG_REGISTERED && u4r_netdev_xdomain(dev) == xd) {
				dev_hold(dev);
				rcu_read_unlock();
				return dev;
			}
		}
	}
	rcu_read_unlock();
	return NULL;
}

void u4r_netdev_put(struct net_device *dev)
{
	dev_put(dev);
}

/* Has an interface of thunderbolt-net come, gone, or changed its state? */
bool u4r_netdev_event_matters(unsigned long event, void *info)
{
	switch (event) {
	case NETDEV_REGISTER:
	case NETDEV_UNREGISTER:
	case NETDEV_UP:
	case NETDEV_DOWN:
		return u4r_netdev_xdomain(netdev_notifier_info_to_dev(info)) != NULL;
	default:
		return false;
	}
}

int u4r_netdev_watch(struct notifier_block *block)
{
	return register_netdevice_notifier(block);
}

void u4r_netdev_unwatch(struct notifier_block *block)
{
	unregister_netdevice_notifier(block);
}

/*
 * Ring pairs that interfaces of thunderbolt-net on this host interface will want
 * but do not hold yet: an interface takes its pair when it is brought up. Until
 * the cable's own interface exists one is kept for it.
 */
unsigned int u4r_net_ring_reserve(struct tb_xdomain *xd)
{
	struct net_device *dev;
	unsigned int count = 0;
	bool own = false;
	struct net *net;

	rcu_read_lock();
	for_each_net_rcu(net) {
		for_each_netdev_rcu(net, dev) {
			struct tb_xdomain *other = u4r_netdev_xdomain(dev);

			if (!other || other->tb->nhi != xd->tb->nhi)
				continue;
			own |= other == xd;
			count += !netif_running(dev);
		}
	}
	rcu_read_unlock();
	return count + !own;
}
