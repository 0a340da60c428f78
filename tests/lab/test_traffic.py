# SPDX-License-Identifier: GPL-2.0
"""Data across the cable and within a host: pingpongs, perftest, every byte compared."""

import re

import pytest

from pairs import DEVICE, counters, gid_index, run_pair, verify

# name, options: the demo's programs and what else perftest must get through.
BANDWIDTH = [
    ("ib_send_bw", "-s 65536 -n 1000"),
    ("ib_send_bw", "-s 1048576 -n 100"),
    ("ib_write_bw", "-s 65536 -n 1000"),
    ("ib_write_bw", "-s 1048576 -n 100"),
    ("ib_read_bw", "-s 65536 -n 1000"),
    ("ib_read_bw", "-s 1048576 -n 100"),
    ("ib_send_bw", "-c UC -s 65536 -n 1000"),
    ("ib_write_bw", "-c UC -s 65536 -n 1000"),
    ("ib_send_bw", "-e -s 65536 -n 1000"),
    ("ib_send_bw", "-q 8 -s 65536 -n 200"),
    ("ib_write_bw", "-q 64 -s 4096 -n 100"),
    ("ib_send_bw", "-b -s 65536 -n 500"),
    ("ib_send_bw", "-a -n 10"),
]
LATENCY = [
    ("ib_send_lat", "-s 64 -n 500"),
    ("ib_write_lat", "-s 64 -n 500"),
    ("ib_read_lat", "-s 64 -n 500"),
    ("ib_send_lat", "-c UC -s 64 -n 500"),
    ("ib_send_lat", "-I 200 -s 64 -n 500"),
]
ROW = re.compile(r"^\s+\d+\s+\d+\s+[\d.]+\s+[\d.]+", re.MULTILINE)


def perftest(lab, name, options):
    """One perftest program between the hosts; the client's output."""
    words = f"{name} -d {DEVICE} -F {options}"
    return run_pair(lab, words, words + " {address}")[1].out


@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_uc_pingpong"])
@pytest.mark.parametrize("options", ["", "-e", "-s 1048576 -n 20"])
def test_pingpong_validates_its_data(driver, program, options):
    words = f"{program} -d {DEVICE} -c {options} -g "
    _, there = run_pair(driver, words + str(gid_index(driver.a)),
                        words + f"{gid_index(driver.b)} {{address}}")
    assert "iters in" in there.out and "invalid data" not in there.out


@pytest.mark.parametrize("name,options", BANDWIDTH)
def test_perftest_bandwidth(driver, name, options):
    assert ROW.search(perftest(driver, name, options))


@pytest.mark.parametrize("name,options", LATENCY)
def test_perftest_latency(driver, name, options):
    assert ROW.search(perftest(driver, name, options))


@pytest.mark.parametrize("options", [
    "-m 32", "-m 16 -e", "-m 16 -q 8 -D 2 -M 1000000", "-m 16 -g 16 -i", "-m 16 -u",
    "-m 16 -u -e -g 3", "-m 8 -o r -D 16", "-m 4 -o w -M 5000 -D 8", "-m 1 -M 300 -i -D 16"])
def test_every_byte_across_the_cable(driver, options):
    verify(driver, f"-s 1 {options}")


@pytest.mark.parametrize("options", ["-m 16", "-m 8 -e -q 4", "-m 8 -u"])
def test_every_byte_within_a_host(driver, options):
    verify(driver, f"-s 2 {options}", hosts=(driver.a, driver.a))


def test_no_retransmission_without_loss(driver):
    """Nothing is lost here, so nothing may be sent twice."""
    before = {host.name: counters(host) for host in driver.hosts.values()}
    verify(driver, "-s 3 -m 32 -q 2")
    for host in driver.hosts.values():
        after = counters(host)
        assert after["tx_bytes"] - before[host.name]["tx_bytes"] >= 32 << 20
        again = after["tx_retransmit"] - before[host.name]["tx_retransmit"]
        assert again == 0, f"{host.name} sent {again} frames again"


def system_calls(host, command, timeout=120):
    """Starts a command under strace; what counts its calls on the verbs device."""
    traced = ("strace -f -qq -y -e trace=write,ioctl -o /run/calls "
              f"{command}; grep -c 'uverbs.*' /run/calls >/run/count")
    return host.start(traced, timeout)


def test_data_path_makes_no_needless_system_calls(driver):
    """A thousand more receives and polls: none. A thousand more posted sends: one each at most."""
    few, many, slack = 500, 1500, 50
    received, sent = {}, {}
    for count in (few, many):
        words = f"ib_send_bw -d {DEVICE} -F -s 64 -n {count}"
        server = system_calls(driver.a, words)
        driver.a.wait_until("ss -Hltn | grep -q ':185'", 30)
        client = system_calls(driver.b, f"{words} {driver.addresses['a']}")
        assert client.wait().ok and server.wait().ok
        received[count] = int(driver.a.read("/run/count"))
        sent[count] = int(driver.b.read("/run/count"))
    # What both runs do once (the device, its table of GIDs, queues, memory) cancels out.
    assert received[few] > 0 and received[many] - received[few] < slack, f"{received} calls to receive"
    assert sent[many] - sent[few] < many - few + slack, f"{sent} calls to send"
