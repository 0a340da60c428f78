/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads: the headers of both sides and our own helpers. Only what
 * the Kbuild's allowlist names is emitted.
 */
#include <linux/hrtimer_types.h>
#include <linux/dma-mapping.h>
#include <linux/mod_devicetable.h>
#include <linux/netdevice.h>
#include <linux/thunderbolt.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_types.h>
#include <rdma/rdma_netlink.h>
#include <rdma/ib_user_verbs.h>

#include "helpers.h"
#include "usb4_rdma-abi.h"

/* Expressions that bindgen cannot see through. */
const unsigned int RUST_CONST_HELPER_RING_FLAG_FRAME = RING_FLAG_FRAME;
