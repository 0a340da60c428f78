# SPDX-License-Identifier: GPL-2.0
"""What programs do wrong, and the exact answer to each (tests/programs/badinput.h)."""

import pytest

from pairs import DEVICE, run_pair, verify

CASES = ["remote_keys", "local_keys", "deregister_early", "entries", "full_queues", "states",
         "bad_wr", "flush_order", "cq_overrun", "destroyed_completions", "too_long",
         "receiver_not_ready", "peer_gone", "unreliable", "atomics", "send_ring",
         "receive_ring", "completion_ring", "limits", "absent", "resize_cq",
         "resize_armed_cq", "rereg_mr", "windows", "dmabuf", "fence", "solicited",
         "inline_data"]
SLOW_CASES = ["object_counts", "longest_message"]


def test_all_cases_are_listed(driver):
    listed = driver.a.run("u4r_badinput -l", check=True).out.split()
    assert listed == CASES + SLOW_CASES


@pytest.mark.parametrize("case", CASES + SLOW_CASES)
def test_case(driver, case):
    result = driver.a.run(f"u4r_badinput -d {DEVICE} -t 280 {case}", timeout=300)
    assert result.ok and f"ok {case}" in result.out, result.out + result.err


def test_across_the_cable(driver):
    here, there = run_pair(driver, f"u4r_badinput -d {DEVICE} -r",
                           f"u4r_badinput -d {DEVICE} -R {{address}}")
    assert "ok remote" in here.out and "ok remote" in there.out


def test_device_works_after_all_that(driver):
    verify(driver, "-m 8")
