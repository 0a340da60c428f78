// SPDX-License-Identifier: GPL-2.0
/* Locks, clock and jobs: what both sides of the module use. */
#include <linux/timekeeping.h>
#include "helpers_job.h"

unsigned long u4r_lock_irqsave(spinlock_t *lock) __acquires(lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

void u4r_unlock_irqrestore(spinlock_t *lock, unsigned long flags) __releases(lock)
{
	spin_unlock_irqrestore(lock, flags);
}

bool u4r_trylock_irqsave(spinlock_t *lock, unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}

/* The clock of everything in the module: that of the job timers. */
u64 u4r_now_ns(void)
{
	return ktime_get_ns();
}

/*
 * Urgent: what moves frames; must not wait behind other work. The other queue
 * may sleep for long (handshakes, teardown).
 */
struct workqueue_struct *u4r_wq_alloc(bool urgent)
{
	if (urgent)
		return alloc_workqueue("usb4_rdma", WQ_HIGHPRI | WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	return alloc_workqueue("usb4_rdma_link", WQ_UNBOUND, 0);
}

static void job_work(struct work_struct *work)
{
	struct u4r_job *job = container_of(work, struct u4r_job, work);

	job->fn(job->arg);
}

static enum hrtimer_restart job_timer(struct hrtimer *timer)
{
	struct u4r_job *job = container_of(timer, struct u4r_job, timer);
	unsigned long flags;

	spin_lock_irqsave(&job->lock, flags);
	/* Armed anew for later while this callback waited for the lock? */
	if (job->armed_ns && !hrtimer_is_queued(timer))
		job->armed_ns = 0;
	spin_unlock_irqrestore(&job->lock, flags);
	queue_work(job->wq, &job->work);
	return HRTIMER_NORESTART;
}

void u4r_job_init(struct u4r_job *job, struct workqueue_struct *wq,
		  void (*fn)(void *arg), void *arg)
{
	INIT_WORK(&job->work, job_work);
	hrtimer_setup(&job->timer, job_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	spin_lock_init(&job->lock);
	job->armed_ns = 0;
	job->stopped = false;
	job->wq = wq;
	job->fn = fn;
	job->arg = arg;
}

bool u4r_job_queue(struct u4r_job *job)
{
	return queue_work(job->wq, &job->work);
}

/* Runs the job at this time of ktime_get_ns(), or earlier if it is due earlier. */
void u4r_job_at(struct u4r_job *job, u64 ns)
{
	unsigned long flags;

	/* A stale look is harmless: the time was armed by somebody who saw it so. */
	if (READ_ONCE(job->armed_ns) && READ_ONCE(job->armed_ns) <= ns)
		return;
	spin_lock_irqsave(&job->lock, flags);
	if (!job->stopped && (!job->armed_ns || ns < job->armed_ns)) {
		WRITE_ONCE(job->armed_ns, ns);
		hrtimer_start(&job->timer, ns_to_ktime(ns), HRTIMER_MODE_ABS);
	}
	spin_unlock_irqrestore(&job->lock, flags);
}

/* Waits for a run that is queued or under way; a timer may start the next one. */
void u4r_job_flush(struct u4r_job *job)
{
	flush_work(&job->work);
}

/* When this returns fn does not run and will never run again. Not from fn itself. */
void u4r_job_stop(struct u4r_job *job)
{
	unsigned long flags;

	spin_lock_irqsave(&job->lock, flags);
	job->stopped = true;
	spin_unlock_irqrestore(&job->lock, flags);
	hrtimer_cancel(&job->timer);
	disable_work_sync(&job->work);
}
