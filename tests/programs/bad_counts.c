// SPDX-License-Identifier: GPL-2.0
/* u4r_badinput: as many objects as the device promises, at once, and one more. */
#include <errno.h>
#include <stdlib.h>

#include "badinput.h"

/* What one object is made from. */
struct material {
	struct device *dev;
	struct ibv_cq *cq;
};

static void *make_pd(const struct material *m)
{
	return ibv_alloc_pd(m->dev->ctx);
}

static int end_pd(void *pd)
{
	return ibv_dealloc_pd(pd);
}

static void *make_cq(const struct material *m)
{
	return ibv_create_cq(m->dev->ctx, 1, NULL, NULL, 0);
}

static int end_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}

static void *make_qp(const struct material *m)
{
	struct ibv_qp_init_attr init = {
		.send_cq = m->cq, .recv_cq = m->cq, .qp_type = IBV_QPT_RC,
		.cap = { 1, 1, 1, 1, 0 },
	};

	return ibv_create_qp(m->dev->pd, &init);
}

static int end_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static void *make_srq(const struct material *m)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(m->dev->pd, &init);
}

static int end_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static void *make_mr(const struct material *m)
{
	static char memory[4096];

	return ibv_reg_mr(m->dev->pd, memory, 64, IBV_ACCESS_LOCAL_WRITE);
}

static int end_mr(void *mr)
{
	return ibv_dereg_mr(mr);
}

/* There are `limit` objects at the most, of which the kernel's own users (the GSI
 * queue pair and its like) may hold up to `taken`. */
static void count(const struct material *m, const char *what, int limit, int taken,
		  void *(*make)(const struct material *), int (*end)(void *))
{
	void **made = calloc(limit + 1, sizeof(*made));
	int n, err;

	if (!made)
		die(ENOMEM, "table of %ss", what);
	errno = 0;
	for (n = 0; n <= limit && (made[n] = make(m)); n++)
		;
	err = errno;
	expect(n <= limit && n >= limit - taken, "%d %ss of %d", n, what, limit);
	expect(err == ENOMEM, "one %s more: errno %d", what, err);
	while (n--)
		expect(!end(made[n]));
	free(made);
}

void object_counts(struct device *dev)
{
	const struct ibv_device_attr *a = &dev->attr;
	struct material m = { dev, ibv_create_cq(dev->ctx, 16, NULL, NULL, 0) };

	if (!m.cq)
		die(errno, "create_cq");
	/* This program's own domain and queue, and those of the kernel's MAD layer. */
	count(&m, "protection domain", a->max_pd, 2, make_pd, end_pd);
	count(&m, "completion queue", a->max_cq, 3, make_cq, end_cq);
	count(&m, "shared receive queue", a->max_srq, 0, make_srq, end_srq);
	count(&m, "queue pair", a->max_qp, 2, make_qp, end_qp);
	count(&m, "memory region", a->max_mr, 2, make_mr, end_mr);
	expect(!ibv_destroy_cq(m.cq));
}
