/* SPDX-License-Identifier: GPL-2.0 */
/* Thunderbolt side: see helpers_tb.c. */
#ifndef U4R_HELPERS_TB_H
#define U4R_HELPERS_TB_H

#include <linux/dma-mapping.h>
#include <linux/mod_devicetable.h>
#include <linux/netdevice.h>
#include <linux/thunderbolt.h>

/* From params.c: checked there, read here with a plain load. */
extern unsigned int u4r_lanes;
extern unsigned int u4r_ring_size;
extern unsigned int u4r_poll_us;
extern unsigned int u4r_irq_moderation_ns;
extern unsigned int u4r_ack_delay_us;
extern const struct tb_service_id u4r_service_ids[];

#define U4R_FRAME_SIZE	4096

size_t u4r_sizeof_tb_ring(void);
size_t u4r_sizeof_tb_xdomain(void);

/* Buffers of frames */
void *u4r_frame_alloc(struct device *dev, bool to_device, dma_addr_t *dma);
void u4r_frame_unmap(struct device *dev, bool to_device, dma_addr_t dma);
void u4r_frame_free(void *data);
void u4r_frame_for_device(struct device *dev, bool to_device, dma_addr_t dma, size_t len);
void u4r_frame_for_cpu(struct device *dev, dma_addr_t dma, size_t len);

/* Rings */
struct tb_ring *u4r_ring_alloc_tx(struct tb_nhi *nhi, int size);
struct tb_ring *u4r_ring_alloc_rx(struct tb_nhi *nhi, int size, int tx_hop,
				  unsigned int moderation_ns);
int u4r_ring_send(struct tb_ring *ring, struct ring_frame *frame, size_t len);
int u4r_ring_post(struct tb_ring *ring, struct ring_frame *frame);
void u4r_frame_result(const struct ring_frame *frame, u32 *len, u32 *flags);
void u4r_ring_frame_init(struct ring_frame *frame, dma_addr_t dma, ring_cb callback);
int u4r_ring_tail(struct tb_ring *ring);
bool u4r_ring_poke(struct tb_ring *ring);
void u4r_ring_quiesce(struct tb_ring *ring);
unsigned int u4r_nhi_free_pairs(struct tb_nhi *nhi);

/* XDomain */
struct tb_xdomain *u4r_service_xdomain(struct tb_service *svc);
void u4r_peer_name(struct tb_xdomain *xd, char *name, size_t len);
const char *u4r_xdomain_dev_name(struct tb_xdomain *xd);
struct tb_nhi *u4r_xdomain_nhi(struct tb_xdomain *xd);
int u4r_xdomain_send(struct tb_xdomain *xd, const void *message, size_t len);
int u4r_enable_paths(struct tb_xdomain *xd, int tx_path, int tx_ring, int rx_path, int rx_ring);
struct tb_property_dir *u4r_properties(const uuid_t *uuid, u32 version, u32 capabilities);
void u4r_host_name(char *name, size_t len);
bool u4r_domain_present(const struct tb_service_driver *driver);
void u4r_quiesce_callbacks(void);

/* thunderbolt-net's interface */
struct net_device *u4r_find_netdev(struct tb_xdomain *xd);
void u4r_netdev_put(struct net_device *dev);
bool u4r_netdev_event_matters(unsigned long event, void *info);
int u4r_netdev_watch(struct notifier_block *block);
void u4r_netdev_unwatch(struct notifier_block *block);
unsigned int u4r_net_ring_reserve(struct tb_xdomain *xd);

#endif
