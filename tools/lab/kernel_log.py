# SPDX-License-Identifier: GPL-2.0
"""Finds in a kernel log what must never be there."""

import re

FAULTS = re.compile(
    r"WARNING: |\bBUG: |kernel BUG at|\bOops\b|Call Trace:|general protection|"
    r"Unable to handle|UBSAN:|KASAN:|KFENCE:|DEBUG_LOCKS|INFO: task .* blocked|"
    r"rcu.*detected stall|list_(add|del) corruption|refcount_t:|"
    r"possible circular locking|possible recursive locking|inconsistent lock state|"
    r"possible irq lock inversion|Invalid wait context|suspicious RCU|DMA-API: .*(leak|not )|"
    r"ODEBUG:|scheduling while atomic|"
    r"rust_kernel: panicked|panicked at")
# Lines that match FAULTS and mean no fault.
HARMLESS = re.compile(r"^$")


def faults(text, context=25):
    """The passages of a log that report a fault, each with the lines that follow."""
    lines = text.splitlines()
    found, skip = [], 0
    for number, line in enumerate(lines):
        if number < skip or not FAULTS.search(line) or HARMLESS.search(line):
            continue
        skip = number + context
        found.append("\n".join(lines[number:skip]))
    return found
