/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What differs between rdma-core's private ABIs (34, 57, 59, 64, 65), and only
 * that: the rest of the provider reads the same for all of them.
 */
#ifndef U4R_COMPAT_H
#define U4R_COMPAT_H

#include <infiniband/driver.h>

/* ABI 57 gave ibv_cmd_get_context a list of file descriptors, for drivers whose
 * objects are made from somebody else's memory. We have none. */
static inline int u4r_cmd_get_context(struct verbs_context *ctx,
				      struct ib_uverbs_get_context_resp *resp,
				      size_t resp_size)
{
	struct ibv_get_context cmd = {};

#if IBVERBS_PABI_VERSION >= 57
	return ibv_cmd_get_context(ctx, &cmd, sizeof(cmd), NULL, resp, resp_size);
#else
	return ibv_cmd_get_context(ctx, &cmd, sizeof(cmd), resp, resp_size);
#endif
}

/* An argument more came without a new ABI number: the Makefile looks. */
static inline int u4r_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access,
					struct verbs_mr *vmr)
{
#ifdef U4R_DMABUF_HAS_DRIVER
	return ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr, NULL);
#else
	return ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr);
#endif
}

#endif
