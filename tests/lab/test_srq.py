# SPDX-License-Identifier: GPL-2.0
"""Shared receive queues: data of many queue pairs, their events, their refusals."""

from pairs import DEVICE, counters, resources, run_pair


def test_data_events_and_refusals(driver):
    """u4r_srq compares every byte; its messages outnumber the entries, so some are told to wait."""
    before = resources(driver.a)
    waits = counters(driver.a)["tx_rnr"]
    command = f"u4r_srq -d {DEVICE}"
    here, there = run_pair(driver, command, command + " {address}")
    for result in (here, there):
        assert "every byte compared" in result.out and "PASS" in result.out
    assert counters(driver.a)["tx_rnr"] > waits
    assert resources(driver.a) == before


def test_within_one_device(driver):
    command = f"u4r_srq -d {DEVICE} -n 50"
    here, there = run_pair(driver, command, command + " {address}", hosts=(driver.a, driver.a))
    assert "PASS" in here.out and "PASS" in there.out
