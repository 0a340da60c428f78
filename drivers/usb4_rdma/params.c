// SPDX-License-Identifier: GPL-2.0
/*
 * Module parameters (Documentation/parameters.md) and the table of services this
 * driver is for. In C because Rust's module! has no parameters that show in
 * sysfs. A value out of range is refused with EINVAL.
 */
#include <linux/kstrtox.h>
#include <linux/mod_devicetable.h>
#include <linux/module.h>
#include <linux/stringify.h>
#include "helpers_tb.h"

struct u4r_range {
	unsigned int *value;
	unsigned int min, max;
	bool power_of_two;
};

static int u4r_range_set(const char *text, const struct kernel_param *kp)
{
	const struct u4r_range *range = kp->arg;
	unsigned int value;
	int ret = kstrtouint(text, 0, &value);

	if (ret)
		return ret;
	if (value < range->min || value > range->max)
		return -EINVAL;
	if (range->power_of_two && (value & (value - 1)))
		return -EINVAL;
	WRITE_ONCE(*range->value, value);
	return 0;
}

static int u4r_range_get(char *text, const struct kernel_param *kp)
{
	const struct u4r_range *range = kp->arg;

	return sysfs_emit(text, "%u\n", READ_ONCE(*range->value));
}

static const struct kernel_param_ops u4r_range_ops = {
	.set = u4r_range_set,
	.get = u4r_range_get,
};

#define U4R_PARAM(name, init, lo, hi, pow2, unit, text)				\
	unsigned int u4r_##name = init;						\
	static const struct u4r_range u4r_range_##name = {			\
		.value = &u4r_##name, .min = lo, .max = hi, .power_of_two = pow2 };	\
	module_param_cb(name, &u4r_range_ops, (void *)&u4r_range_##name, 0644);	\
	__MODULE_PARM_TYPE(name, "uint");					\
	MODULE_PARM_DESC(name, text " (" unit ", " __stringify(lo) ".." __stringify(hi)	\
			 ", default " __stringify(init) ")")

U4R_PARAM(lanes, 8, 1, 8, false, "ring pairs",
	  "Most lanes to open to a peer; takes effect at the next link");
U4R_PARAM(ring_size, 256, 64, 4096, true, "frames, power of two",
	  "Size of each lane's transmit and receive ring; takes effect at the next link");
U4R_PARAM(poll_us, 1000, 100, 100000, false, "us",
	  "Period of the supplemental poll while something is outstanding; takes effect at once");
U4R_PARAM(irq_moderation_ns, 8192, 0, 16000000, false, "ns",
	  "Least time between two receive interrupts of a lane; takes effect at the next link");
U4R_PARAM(ack_delay_us, 500, 0, 50000, false, "us",
	  "Longest delay of an acknowledgement nobody asked for; takes effect at once");
const struct tb_service_id u4r_service_ids[] = {
	{ TB_SERVICE("u4rdma", 1) },
	{ }
};
MODULE_DEVICE_TABLE(tbsvc, u4r_service_ids);
