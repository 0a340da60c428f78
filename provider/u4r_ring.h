/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A ring shared with the kernel, and the ordering that its protocol needs.
 * The other side is a CPU of the same machine, so these are C11 atomics; the
 * barriers of util/udma_barrier.h are for devices that read memory by DMA.
 */
#ifndef U4R_RING_H
#define U4R_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <sys/mman.h>

#include "usb4_rdma-abi.h"

struct u4r_ring {
	uint8_t *map;		/* NULL: there is no such ring */
	uint32_t bytes;
	uint32_t entries;	/* power of two */
	uint32_t stride;	/* bytes from one entry to the next */
};

static inline struct u4r_ring_user *ring_user(const struct u4r_ring *ring)
{
	return (struct u4r_ring_user *)(ring->map + U4R_RING_USER_LINE);
}

static inline struct u4r_ring_kernel *ring_kernel(const struct u4r_ring *ring)
{
	return (struct u4r_ring_kernel *)(ring->map + U4R_RING_KERNEL_LINE);
}

/* The slot of a free-running index. */
static inline void *ring_slot(const struct u4r_ring *ring, uint32_t index)
{
	return ring->map + U4R_RING_ENTRIES +
	       (size_t)(index & (ring->entries - 1)) * ring->stride;
}

/* Publishes a word: everything stored before is seen by who sees the word. */
static inline void ring_publish(__u32 *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Observes a word: what its writer stored before it is seen from here on. */
static inline uint32_t ring_observe(const __u32 *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* "I have published, now I ask whether you sleep": the store before and the load
 * after must not change places. The kernel has the same barrier between "I am
 * about to sleep" and its last look at the ring. */
static inline void ring_publish_then_ask(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

/*
 * Maps a ring as the kernel's answer describes it, which is checked: a module
 * and a provider that do not fit each other must fail here, not in the data path.
 * Returns 0 or an errno.
 */
static inline int ring_map(struct u4r_ring *ring, int fd, uint64_t key,
			   uint32_t bytes, uint32_t entries, uint32_t stride)
{
	void *map;

	if (!entries || (entries & (entries - 1)) || !stride || stride % 16 ||
	    (uint64_t)entries * stride + U4R_RING_ENTRIES > bytes)
		return EPROTO;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)key);
	if (map == MAP_FAILED)
		return errno;
	*ring = (struct u4r_ring){
		.map = map, .bytes = bytes, .entries = entries, .stride = stride,
	};
	return 0;
}

static inline void ring_unmap(struct u4r_ring *ring)
{
	if (ring->map)
		munmap(ring->map, ring->bytes);
	ring->map = NULL;
}

#endif
