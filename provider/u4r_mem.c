// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Protection domains and memory regions: the kernel does it all. */
#include <stdlib.h>

#include "u4r.h"

struct u4r_pd_resp {
	struct ib_uverbs_alloc_pd_resp ibv;
	struct u4r_alloc_pd_resp drv;
};

struct ibv_pd *u4r_alloc_pd(struct ibv_context *ctx)
{
	struct u4r_pd_resp resp = {};
	struct ibv_alloc_pd cmd = {};
	struct ibv_pd *pd;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	if (ibv_cmd_alloc_pd(ctx, pd, &cmd, sizeof(cmd), &resp.ibv, sizeof(resp))) {
		free(pd);
		return NULL;
	}
	return pd;
}

int u4r_dealloc_pd(struct ibv_pd *pd)
{
	int ret = ibv_cmd_dealloc_pd(pd);

	if (!ret)
		free(pd);
	return ret;
}

struct ibv_mr *u4r_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			  uint64_t iova, int access)
{
	struct ib_uverbs_reg_mr_resp resp = {};
	struct ibv_reg_mr cmd = {};
	struct verbs_mr *vmr;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;
	if (ibv_cmd_reg_mr(pd, addr, length, iova, access, vmr, &cmd, sizeof(cmd),
			   &resp, sizeof(resp))) {
		free(vmr);
		return NULL;
	}
	return &vmr->ibv_mr;
}

int u4r_dereg_mr(struct verbs_mr *vmr)
{
	int ret = ibv_cmd_dereg_mr(vmr);

	if (!ret)
		free(vmr);
	return ret;
}
