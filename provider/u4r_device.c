// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The provider's face to libibverbs: which devices are ours, what a context
 * can do, and the queries that the kernel answers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "u4r.h"

struct u4r_get_context_resp {
	struct ib_uverbs_get_context_resp ibv;
	struct u4r_alloc_ucontext_resp drv;
};

static int u4r_query_device(struct ibv_context *ctx,
			    const struct ibv_query_device_ex_input *input,
			    struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);
	uint64_t version;
	int ret;

	ret = ibv_cmd_query_device_any(ctx, input, attr, attr_size, &resp, &resp_size);
	if (ret)
		return ret;
	version = resp.base.fw_ver;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%u.%u.%u",
		 (unsigned int)(version >> 32) & 0xffff,
		 (unsigned int)(version >> 16) & 0xffff,
		 (unsigned int)version & 0xffff);
	return 0;
}

static int u4r_query_port(struct ibv_context *ctx, uint8_t port,
			  struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd = {};

	return ibv_cmd_query_port(ctx, port, attr, &cmd, sizeof(cmd));
}

static void u4r_free_context(struct ibv_context *ibctx)
{
	struct u4r_context *ctx = to_uctx(ibctx);

	verbs_uninit_context(&ctx->base);
	free(ctx);
}

/* What is not listed here fails with EOPNOTSUPP by libibverbs' own defaults:
 * applications probe for extensions and expect exactly that. */
static const struct verbs_context_ops u4r_ops = {
	.alloc_mw = u4r_alloc_mw,
	.alloc_parent_domain = u4r_alloc_parent_domain,
	.alloc_pd = u4r_alloc_pd,
	.alloc_td = u4r_alloc_td,
	.bind_mw = u4r_bind_mw,
	.cq_event = u4r_cq_event,
	.create_cq = u4r_create_cq,
	.create_cq_ex = u4r_create_cq_ex,
	.create_qp = u4r_create_qp,
	.create_qp_ex = u4r_create_qp_ex,
	.create_srq = u4r_create_srq,
	.dealloc_mw = u4r_dealloc_mw,
	.dealloc_pd = u4r_dealloc_pd,
	.dealloc_td = u4r_dealloc_td,
	.dereg_mr = u4r_dereg_mr,
	.destroy_cq = u4r_destroy_cq,
	.destroy_qp = u4r_destroy_qp,
	.destroy_srq = u4r_destroy_srq,
	.free_context = u4r_free_context,
	.modify_qp = u4r_modify_qp,
	.modify_srq = u4r_modify_srq,
	.poll_cq = u4r_poll_cq,
	.post_recv = u4r_post_recv,
	.post_send = u4r_post_send,
	.post_srq_recv = u4r_post_srq_recv,
	.query_device_ex = u4r_query_device,
	.query_port = u4r_query_port,
	.query_qp = u4r_query_qp,
	.query_srq = u4r_query_srq,
	.reg_dmabuf_mr = u4r_reg_dmabuf_mr,
	.reg_mr = u4r_reg_mr,
	.req_notify_cq = u4r_req_notify_cq,
	.rereg_mr = u4r_rereg_mr,
	.resize_cq = u4r_resize_cq,
};

static struct verbs_context *u4r_alloc_context(struct ibv_device *ibdev, int fd,
					       void *private_data)
{
	struct u4r_get_context_resp resp = {};
	struct u4r_context *ctx;

	(void)private_data;
	ctx = verbs_init_and_alloc_context(ibdev, fd, ctx, base, U4R_DRIVER_ID);
	if (!ctx)
		return NULL;
	if (u4r_cmd_get_context(&ctx->base, &resp.ibv, sizeof(resp)))
		goto fail;
	if (resp.drv.abi_version != U4R_ABI_VERSION) {
		verbs_err(&ctx->base, "kernel module speaks ABI %u, this provider %u\n",
			  resp.drv.abi_version, U4R_ABI_VERSION);
		errno = EPROTO;
		goto fail;
	}
	ctx->max_sge = resp.drv.max_sge;
	ctx->max_inline = resp.drv.max_inline;
	verbs_set_ops(&ctx->base, &u4r_ops);
	return &ctx->base;

fail:
	verbs_uninit_context(&ctx->base);
	free(ctx);
	return NULL;
}

static struct verbs_device *u4r_alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	(void)sysfs_dev;
	return calloc(1, sizeof(struct verbs_device));
}

static void u4r_free_device(struct verbs_device *vdev)
{
	free(vdev);
}

/* By number alone: names change under udev's rules, PCI ids are the NHI's. */
static const struct verbs_match_ent u4r_match[] = {
	VERBS_DRIVER_ID(U4R_DRIVER_ID),
	{},
};

static const struct verbs_device_ops u4r_dev_ops = {
	.name = "usb4_rdma",
	.match_min_abi_version = U4R_ABI_VERSION,
	.match_max_abi_version = U4R_ABI_VERSION,
	.match_table = u4r_match,
	.alloc_device = u4r_alloc_device,
	.uninit_device = u4r_free_device,
	.alloc_context = u4r_alloc_context,
};

PROVIDER_DRIVER(usb4_rdma, u4r_dev_ops);
