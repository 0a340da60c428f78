// SPDX-License-Identifier: GPL-2.0
/* C helpers of the thunderbolt side. */
#include "helpers_tb.h"

/* Layout guards: compared with bindgen's idea of the same types at load time. */
size_t u4r_sizeof_tb_ring(void)
{
	return sizeof(struct tb_ring);
}

size_t u4r_sizeof_tb_xdomain(void)
{
	return sizeof(struct tb_xdomain);
}
