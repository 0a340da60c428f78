/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR Linux-OpenIB */
/*
 * usb4_rdma user ABI: the one description shared by the kernel module (through
 * bindgen), the rdma-core provider and the tests. See Documentation/abi.md.
 *
 * Rules: fixed-width members, no enums, no pointers, no implicit padding, all
 * indices free-running 32-bit counters (slot = index & (entries - 1)).
 * Memory shared with the kernel is little-endian only as the host is.
 */
#ifndef USB4_RDMA_ABI_H
#define USB4_RDMA_ABI_H

#include <linux/types.h>

#define U4R_ABI_VERSION		1
/* A private, large driver id: rdma-core matches it exactly, udev renames or not. */
#define U4R_DRIVER_ID		0x75347264	/* "u4rd" */

#define U4R_MAX_SGE		16
#define U4R_MAX_INLINE		256
/* Entries start here in each mapped ring; the two lines below come first.
 * 128, not 64: the line size of Apple's arm64 machines. */
#define U4R_RING_USER_LINE	0
#define U4R_RING_KERNEL_LINE	128
#define U4R_RING_ENTRIES	256

/* Written by user space only. */
struct u4r_ring_user {
	__u32 prod;		/* SQ, RQ: entries produced */
	__u32 cons;		/* CQ: entries consumed */
	__u32 arm;		/* CQ: see U4R_ARM_* */
	__u32 reserved[29];
};

/* Written by the kernel only. */
struct u4r_ring_kernel {
	__u32 cons;		/* SQ, RQ: entries consumed, i.e. free again */
	__u32 prod;		/* CQ: entries produced */
	__u32 state;		/* SQ: U4R_SQ_* ; RQ: U4R_RQ_* ; CQ: U4R_CQ_* */
	__u32 reserved[29];
};

/* SQ state. After producing: store-release prod, full barrier, read state;
 * U4R_SQ_IDLE means that a doorbell (post_send with no work request) is due. */
#define U4R_SQ_IDLE		0
#define U4R_SQ_BUSY		1

/* RQ state. U4R_RQ_FLUSH: the queue pair is in the error state. Whoever produced
 * entries and then (full barrier) reads FLUSH rings the doorbell of the queue
 * pair, which completes them with WR_FLUSH_ERR. The kernel sets the word before
 * (full barrier) it reads prod for its own flush, so no entry is left behind. */
#define U4R_RQ_OK		0
#define U4R_RQ_FLUSH		1

/* A queue pair that goes to RESET forgets its entries: the kernel makes cons
 * equal to the prod it reads then (indices keep running, they do not restart). */

/* CQ state */
#define U4R_CQ_OK		0
#define U4R_CQ_OVERRUN		1

/* CQ arm word: bits 1:0 the kind, bits 31:2 a counter that grows with each
 * arming. The kernel notifies once for each new value and never writes it. */
#define U4R_ARM_NONE		0
#define U4R_ARM_SOLICITED	1
#define U4R_ARM_ANY		2
#define U4R_ARM_KIND_MASK	3
#define U4R_ARM_COUNT_SHIFT	2

/* 16 bytes */
struct u4r_sge {
	__aligned_u64 addr;
	__u32 length;
	__u32 lkey;
};

/* Send opcodes */
#define U4R_OP_SEND		1
#define U4R_OP_SEND_IMM		2
#define U4R_OP_SEND_INV		3
#define U4R_OP_WRITE		4
#define U4R_OP_WRITE_IMM	5
#define U4R_OP_READ		6
#define U4R_OP_CMP_SWAP		7
#define U4R_OP_FETCH_ADD	8
#define U4R_OP_LOCAL_INV	9
#define U4R_OP_BIND_MW		10
#define U4R_OP_ATOMIC_WRITE	11	/* a WRITE of 8 bytes, seen whole or not at all */

/* Send flags */
#define U4R_SF_SIGNALED		(1 << 0)
#define U4R_SF_SOLICITED	(1 << 1)
#define U4R_SF_FENCE		(1 << 2)
#define U4R_SF_INLINE		(1 << 3)

/* LOCAL_INV: imm is the key of a type 2 window. BIND_MW: imm is the window's new
 * key, rkey its old one (they differ in the low 8 bits only), remote_addr and
 * compare_add first address and length (0: show nothing), swap the region's lkey in
 * the low half and the access flags of verbs in the high one. Neither has data. */

/* Send entry: 64 bytes, then num_sge * struct u4r_sge or inline_len bytes of
 * data. Slots are sq_stride bytes apart (a multiple of 64). */
struct u4r_sqe {
	__aligned_u64 wr_id;
	__aligned_u64 remote_addr;
	__aligned_u64 compare_add;
	__aligned_u64 swap;
	__u32 rkey;
	__u32 imm;		/* immediate data in its own byte order, or the rkey to invalidate */
	__u32 inline_len;
	__u32 ah;		/* UD: address handle number */
	__u32 remote_qpn;	/* UD */
	__u32 remote_qkey;	/* UD */
	__u8 opcode;
	__u8 flags;
	__u8 num_sge;
	__u8 reserved0;
	__u32 reserved1;
};

/* Receive entry: 16 bytes, then num_sge * struct u4r_sge; rq_stride apart. */
struct u4r_rqe {
	__aligned_u64 wr_id;
	__u32 num_sge;
	__u32 reserved;
};

/* Completion opcodes */
#define U4R_WC_SEND		0
#define U4R_WC_WRITE		1
#define U4R_WC_READ		2
#define U4R_WC_CMP_SWAP		3
#define U4R_WC_FETCH_ADD	4
#define U4R_WC_BIND_MW		5
#define U4R_WC_LOCAL_INV	6
#define U4R_WC_ATOMIC_WRITE	9
#define U4R_WC_RECV		128
#define U4R_WC_RECV_WRITE_IMM	129

/* Completion flags */
#define U4R_WCF_GRH		(1 << 0)
#define U4R_WCF_IMM		(1 << 1)
#define U4R_WCF_INV		(1 << 2)

/* Completion status: the numbers of enum ibv_wc_status (SUCCESS 0,
 * LOC_LEN_ERR 1, ...), fixed by the verbs ABI. */

/* Completion entry: 64 bytes. valid holds 1 in the ring's even passes and 2 in
 * the odd ones (pass = index / entries), stored last with release semantics;
 * a fresh ring is zero. */
struct u4r_cqe {
	__aligned_u64 wr_id;
	__u32 qpn;
	__u32 byte_len;
	__u32 imm;		/* immediate data in its own byte order, or the invalidated rkey */
	__u32 src_qpn;
	__u8 opcode;
	__u8 status;
	__u16 flags;
	__u32 vendor_err;
	__u32 reserved[7];
	__u32 valid;
};

struct u4r_alloc_ucontext_resp {
	__u32 abi_version;
	__u32 max_inline;
	__u32 max_sge;
	__u32 reserved;
};

struct u4r_alloc_pd_resp {
	__u32 pdn;
	__u32 reserved;
};

struct u4r_create_cq_resp {
	__aligned_u64 ring_key;		/* mmap offset */
	__u32 ring_bytes;		/* mmap length, whole pages */
	__u32 entries;			/* power of two */
	__u32 cqn;
	__u32 reserved;
};

struct u4r_resize_cq_resp {
	__aligned_u64 ring_key;
	__u32 ring_bytes;
	__u32 entries;
};

struct u4r_create_qp_resp {
	__aligned_u64 sq_key;
	__aligned_u64 rq_key;		/* 0: no receive queue of its own */
	__u32 sq_bytes;
	__u32 rq_bytes;
	__u32 sq_entries;		/* power of two */
	__u32 rq_entries;
	__u32 sq_stride;
	__u32 rq_stride;
	__u32 max_inline;
	__u32 qpn;
};

struct u4r_create_srq_resp {
	__aligned_u64 rq_key;
	__u32 rq_bytes;
	__u32 rq_entries;
	__u32 rq_stride;
	__u32 srqn;
};

/* The driver's part of modify_srq, whose answer has none: where the kernel writes a
 * u4r_create_srq_resp if the ring has changed (IB_SRQ_MAX_WR). */
struct u4r_modify_srq_req {
	__aligned_u64 response;
};

struct u4r_create_ah_resp {
	__u32 ah;
	__u32 reserved;
};

#endif /* USB4_RDMA_ABI_H */
