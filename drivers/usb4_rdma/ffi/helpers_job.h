/* SPDX-License-Identifier: GPL-2.0 */
/* Locks, clock and jobs: what both sides of the module use. */
#ifndef U4R_HELPERS_JOB_H
#define U4R_HELPERS_JOB_H

#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

unsigned long u4r_lock_irqsave(spinlock_t *lock);
void u4r_unlock_irqrestore(spinlock_t *lock, unsigned long flags);
bool u4r_trylock_irqsave(spinlock_t *lock, unsigned long *flags);

u64 u4r_now_ns(void);

/* A work item that runs fn(arg) on wq, at once or when a high-resolution timer says so. */
struct u4r_job {
	struct work_struct work;
	struct hrtimer timer;
	spinlock_t lock;	/* armed_ns, stopped */
	u64 armed_ns;		/* expiry, 0 = not armed */
	bool stopped;
	struct workqueue_struct *wq;
	void (*fn)(void *arg);
	void *arg;
};

struct workqueue_struct *u4r_wq_alloc(bool urgent);
void u4r_job_init(struct u4r_job *job, struct workqueue_struct *wq,
		  void (*fn)(void *arg), void *arg);
bool u4r_job_queue(struct u4r_job *job);
void u4r_job_at(struct u4r_job *job, u64 ns);
void u4r_job_flush(struct u4r_job *job);
void u4r_job_stop(struct u4r_job *job);

#endif
