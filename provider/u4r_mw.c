// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory windows: made by system calls, bound and invalidated by requests. */
#include <stdlib.h>

#include "u4r.h"

struct ibv_mw *u4r_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ib_uverbs_alloc_mw_resp resp = {};
	struct ibv_alloc_mw cmd = {};
	struct ibv_mw *mw;

	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;
	if (ibv_cmd_alloc_mw(pd, type, mw, &cmd, sizeof(cmd), &resp, sizeof(resp))) {
		free(mw);
		return NULL;
	}
	return mw;
}

int u4r_dealloc_mw(struct ibv_mw *mw)
{
	int ret = ibv_cmd_dealloc_mw(mw);

	if (!ret)
		free(mw);
	return ret;
}

void u4r_fill_bind(struct u4r_sqe *sqe, const struct ibv_mw *mw, uint32_t rkey,
		   const struct ibv_mw_bind_info *info)
{
	uint32_t lkey = info->mr ? info->mr->lkey : 0;

	sqe->rkey = mw->rkey;
	sqe->imm = rkey;
	sqe->remote_addr = info->addr;
	sqe->compare_add = info->length;
	sqe->swap = lkey | (uint64_t)info->mw_access_flags << 32;
}

/* Type 1: every binding gives the window a new key. */
int u4r_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = bind->send_flags,
	}, *bad;
	int ret;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = bind->bind_info;
	ret = u4r_post_send(qp, &wr, &bad);
	if (!ret)
		mw->rkey = wr.bind_mw.rkey;
	return ret;
}
