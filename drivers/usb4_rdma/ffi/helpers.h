/* SPDX-License-Identifier: GPL-2.0 */
/* C that Rust calls: static inlines, macros, and what needs C's types. */
#ifndef U4R_HELPERS_H
#define U4R_HELPERS_H

#include "helpers_job.h"
#include "helpers_tb.h"
#include "helpers_ib.h"

#endif
