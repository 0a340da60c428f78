// SPDX-License-Identifier: GPL-2.0
/* Devices, queue pairs and memory for the test programs. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define ALL_RIGHTS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* What perftest uses, so that tests run under the usual conditions. */
const struct qp_timing default_timing = {
	.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12,
};

void die(int err, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, err ? ": %s\n" : "\n", strerror(err));
	exit(2);
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static struct ibv_context *open_by_name(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;
	int i;

	if (!list)
		die(errno, "no RDMA devices");
	for (i = 0; list[i]; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			break;
	if (list[i])
		ctx = ibv_open_device(list[i]);
	if (!list[i] || !ctx)
		die(list[i] ? errno : 0, "device %s: cannot be opened", name ? name : "(any)");
	ibv_free_device_list(list);
	return ctx;
}

static bool maps_ipv4(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

static void pick_gid(struct device *dev, int wanted)
{
	struct ibv_gid_entry entry;
	int i;

	for (i = 0; i < dev->port.gid_tbl_len; i++) {
		if (wanted >= 0 && i != wanted)
			continue;
		if (ibv_query_gid_ex(dev->ctx, 1, i, &entry, 0))
			continue;
		if (wanted < 0 && (entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
				   !maps_ipv4(&entry.gid)))
			continue;
		dev->gid = entry.gid;
		dev->gid_index = i;
		return;
	}
	die(0, "no RoCEv2 GID with an IPv4 address: give the interface one");
}

void device_open(struct device *dev, const char *name, int gid_index)
{
	memset(dev, 0, sizeof(*dev));
	dev->ctx = open_by_name(name);
	if (ibv_query_device(dev->ctx, &dev->attr))
		die(errno, "query_device");
	if (ibv_query_port(dev->ctx, 1, &dev->port))
		die(errno, "query_port");
	pick_gid(dev, gid_index);
	dev->pd = ibv_alloc_pd(dev->ctx);
	if (!dev->pd)
		die(errno, "alloc_pd");
}

void device_close(struct device *dev)
{
	int err = ibv_dealloc_pd(dev->pd);

	if (err)
		die(err, "dealloc_pd");
	err = ibv_close_device(dev->ctx);
	if (err)
		die(err, "close_device");
}

struct ibv_qp *qp_make(struct device *dev, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_RIGHTS,
	};
	struct ibv_qp *qp = ibv_create_qp(dev->pd, init);
	int err;

	if (!qp)
		die(errno, "create_qp");
	if (init->qp_type == IBV_QPT_UC)
		attr.qp_access_flags &= ~(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS);
	if (err)
		die(err, "modify_qp to INIT");
	return qp;
}

struct qp_address qp_address(const struct device *dev, const struct ibv_qp *qp)
{
	return (struct qp_address){
		.gid = dev->gid, .qpn = qp->qp_num,
		.psn = mix(qp->qp_num ^ getpid() ^ now_ns()) & 0xffffff,
	};
}

static int to_rtr(const struct device *dev, struct ibv_qp *qp,
		  const struct qp_address *peer, const struct qp_timing *timing)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = dev->port.active_mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = dev->attr.max_qp_rd_atom,
		.min_rnr_timer = timing->min_rnr_timer,
		.ah_attr = {
			.is_global = 1, .port_num = 1,
			.grh = { .dgid = peer->gid, .sgid_index = dev->gid_index,
				 .hop_limit = 64 },
		},
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attr, mask);
}

static int to_rts(const struct device *dev, struct ibv_qp *qp, uint32_t psn,
		  const struct qp_timing *timing)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.timeout = timing->timeout,
		.retry_cnt = timing->retry_cnt,
		.rnr_retry = timing->rnr_retry,
		.max_rd_atomic = dev->attr.max_qp_init_rd_atom,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

int qp_connect(const struct device *dev, struct ibv_qp *qp, uint32_t psn,
	       const struct qp_address *peer, const struct qp_timing *timing)
{
	int err = to_rtr(dev, qp, peer, timing);

	return err ? err : to_rts(dev, qp, psn, timing);
}

int qp_to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

struct ibv_mr *mr_make(struct device *dev, void *addr, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(dev->pd, addr, length, ALL_RIGHTS);

	if (!mr)
		die(errno, "reg_mr of %zu bytes", length);
	return mr;
}

bool wait_completion(struct ibv_cq *cq, struct ibv_wc *wc, int timeout_ms)
{
	uint64_t until = now_ns() + timeout_ms * 1000000ull;
	int got;

	do {
		got = ibv_poll_cq(cq, 1, wc);
		if (got < 0)
			die(0, "poll_cq answers %d", got);
		if (got)
			return true;
		/* The frames need the CPU more than this loop does. */
		usleep(50);
	} while (now_ns() < until);
	return false;
}
