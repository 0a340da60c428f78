# SPDX-License-Identifier: GPL-2.0
"""The port's counters: each documented, each tool tells the same, faults are seen in them."""

import json
import pathlib
import re

import pytest

from pairs import DEVICE, SYSFS, counters, data_rings, verify

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "Documentation/verbs.md"
# Enough frames for a fault one in a few hundred to strike, few enough to be quick.
MOVE = "-m 8 -M 262144 -s 7"
# A fault of the frames for host a, and the counters that must grow, each with its host.
FAULTS = [
    ("drop", 100, [("a", "lane_rx_lost"), ("b", "tx_retransmit")]),
    ("duplicate", 100, [("a", "lane_rx_old")]),
    ("crc", 200, [("a", "lane_rx_flagged"), ("b", "tx_retransmit")]),
    ("corrupt", 100, [("a", "bad_crc")]),
    ("strand-rx", 20, [("a", "lane_rx_polled")]),
]


@pytest.fixture(scope="module", name="rings")
def lane_rings(driver):
    """Host a's receive rings that carry our frames."""
    return data_rings(driver)


def growth(host, before):
    """What the counters of a host have gained."""
    return {name: value - before[name] for name, value in counters(host).items()}


def test_each_counter_is_documented(driver):
    text = DOCUMENT.read_text()
    section = text[text.index("## Counters"):]
    missing = [name for name in counters(driver.a) if f"`{name}`" not in section]
    assert not missing


def errors(host):
    """The device's counters of completions in error."""
    listing = host.run(f"cd {SYSFS}/hw_counters && grep -H . *", check=True).out
    pairs = (line.split(":") for line in listing.split())
    return {name: int(value) for name, value in pairs if name != "lifespan"}


def test_errors_are_counted_by_status(driver):
    text = DOCUMENT.read_text()
    before = errors(driver.a)
    assert before and not [name for name in before if f"`{name}`" not in text]
    for case in ("remote_keys", "local_keys", "cq_overrun", "receiver_not_ready"):
        driver.a.run(f"u4r_badinput {case}", timeout=60, check=True)
    grown = {name: value - before[name] for name, value in errors(driver.a).items()}
    for name in ("wc_rem_access_err", "wc_loc_prot_err", "wc_flush_err", "cq_overrun",
                 "wc_rnr_retry_exc_err"):
        assert grown[name], grown


def test_statistic_tool_tells_the_same(driver):
    """On an idle port `rdma statistic` and sysfs agree in every name and value."""
    told = json.loads(driver.a.run(f"rdma -j statistic show link {DEVICE}/1", check=True).out)[0]
    # The lane's own frames go on at their own pace.
    steady = {name: value for name, value in counters(driver.a).items()
              if not re.match("lane_[rt]x_(frames|update|probe)", name)}
    assert steady and {name: told.get(name) for name in steady} == steady


def test_traffic_counts_both_ways(driver):
    before = {host.name: counters(host) for host in driver.hosts.values()}
    verify(driver, "-m 4 -M 65536 -o sw -s 5")
    for host in driver.hosts.values():
        grown = growth(host, before[host.name])
        # 4 MiB each way, and nothing lost on a good cable.
        assert grown["tx_bytes"] >= 4 << 20 and grown["rx_bytes"] >= 4 << 20
        assert grown["tx_data"] >= 1024 and grown["lane_tx_frames"] >= grown["tx_data"]
        assert grown["tx_retransmit"] == 0 and grown["lane_rx_lost"] == 0


@pytest.mark.parametrize("kind, one_in, expected", FAULTS, ids=[row[0] for row in FAULTS])
def test_fault_is_counted_and_cured(driver, rings, kind, one_in, expected):
    """The bytes are compared by u4r_verify; the counters say what it took."""
    before = {host.name: counters(host) for host in driver.hosts.values()}
    for ring in rings:
        driver.cable({"cmd": "fault", "kind": kind, "seed": 3, "one_in": one_in, "host": "a",
                      "hop": ring, "direction": "rx"})
    try:
        verify(driver, MOVE)
    finally:
        driver.cable({"cmd": "faults_clear"})
    grown = {host.name: growth(host, before[host.name]) for host in driver.hosts.values()}
    silent = [(host, name) for host, name in expected if not grown[host][name]]
    assert not silent, grown


def test_receiver_that_is_late_is_counted(driver):
    """Sends that meet no receive entry: RNR NAKs at one end, waits at the other."""
    before = {host.name: counters(host) for host in driver.hosts.values()}
    driver.a.run("u4r_badinput receiver_not_ready", timeout=60, check=True)
    grown = growth(driver.a, before["a"])
    # Loopback: both ends are on this device.
    assert grown["tx_rnr"] and grown["rx_rnr"] and grown["rx_rnr_dropped"]
