// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Protection domains, and their second names: a parent domain is the same domain to
 * the kernel. Queues are kernel memory here and every queue has a lock of its own, so
 * its allocators have nothing to allocate and its thread domain changes nothing.
 */
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
	struct u4r_pd *pd;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	if (ibv_cmd_alloc_pd(ctx, &pd->base, &cmd, sizeof(cmd), &resp.ibv, sizeof(resp))) {
		free(pd);
		return NULL;
	}
	return &pd->base;
}

int u4r_dealloc_pd(struct ibv_pd *ibpd)
{
	struct u4r_pd *pd = to_updomain(ibpd);
	int ret;

	if (pd->parent) {
		atomic_fetch_sub(&pd->parent->users, 1);
		if (pd->td)
			atomic_fetch_sub(&pd->td->users, 1);
		free(pd);
		return 0;
	}
	if (atomic_load(&pd->users))
		return EBUSY;
	ret = ibv_cmd_dealloc_pd(ibpd);
	if (!ret)
		free(pd);
	return ret;
}

struct ibv_td *u4r_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr)
{
	struct u4r_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->base.context = ctx;
	return &td->base;
}

int u4r_dealloc_td(struct ibv_td *ibtd)
{
	struct u4r_td *td = container_of(ibtd, struct u4r_td, base);

	if (atomic_load(&td->users))
		return EBUSY;
	free(td);
	return 0;
}

struct ibv_pd *u4r_alloc_parent_domain(struct ibv_context *ctx,
				       struct ibv_parent_domain_init_attr *attr)
{
	struct u4r_pd *pd, *real;

	if (!attr->pd || to_updomain(attr->pd)->parent) {
		errno = EINVAL;
		return NULL;
	}
	if (attr->comp_mask & ~(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
				IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	real = to_updomain(attr->pd);
	pd->base = (struct ibv_pd){ .context = ctx, .handle = real->base.handle };
	pd->parent = real;
	atomic_fetch_add(&real->users, 1);
	if (attr->td) {
		pd->td = container_of(attr->td, struct u4r_td, base);
		atomic_fetch_add(&pd->td->users, 1);
	}
	return &pd->base;
}
