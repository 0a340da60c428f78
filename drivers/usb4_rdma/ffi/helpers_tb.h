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
extern unsigned int u4r_credit_probe_us;
extern const struct tb_service_id u4r_service_ids[];

size_t u4r_sizeof_tb_ring(void);
size_t u4r_sizeof_tb_xdomain(void);

#endif
