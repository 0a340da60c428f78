# SPDX-License-Identifier: GPL-2.0
"""Processes that die, modules that go, cables that are pulled."""

import re

import pytest

from pairs import DEVICE, SYSFS, resources, run_pair, verify

UNPLUGS = 20
ACTIVE = f"grep -q ACTIVE {SYSFS}/ports/1/state 2>/dev/null"
GONE = f"! ls -d {SYSFS} >/dev/null 2>&1"
NO_PEER = "! ls -d /sys/bus/thunderbolt/devices/0-1 >/dev/null 2>&1"
PATIENCE = 90


def hold(lab, options=""):
    """u4r_hold on both hosts, traffic both ways unless idle; the two running jobs."""
    command = f"u4r_hold -d {DEVICE} -t 100 {options}"
    jobs = [lab.a.start(command, 160)]
    lab.a.wait_until("ss -Hltn | grep -q ':18517'", 30)
    jobs.append(lab.b.start(f"{command} {lab.addresses['a']}", 160))
    for job in jobs:
        job.wait_for("READY" if "-i" in options else "FLOWING", 30)
    return jobs


def active(lab):
    """Waits until both ports are active again."""
    lab.network(PATIENCE)
    lab.each(lambda host: host.wait_until(ACTIVE, PATIENCE))


def replug(lab):
    """Plugs the cable when everything that hung on it is gone, thunderbolt-net's side included:
    that takes some seconds, and its old interface must not be taken for the new one."""
    lab.each(lambda host: host.wait_until(f"{GONE} && {NO_PEER}", PATIENCE))
    lab.plug()
    lab.wait_discovery(PATIENCE)


def usable(lab):
    """Waits until both ports are active again, and proves that data flows."""
    active(lab)
    verify(lab, "-m 2 -M 100000")


def ended_well(job):
    """Every request that was posted came back; the output."""
    result = job.wait()
    assert result.ok and "DRAINED" in result.out and "PASS" in result.out, str(result)
    return result.out


@pytest.mark.parametrize("options", ["-q 4", "-q 4 -u", "-q 2 -i"])
def test_killed_process_leaves_nothing(driver, options):
    before = {host.name: resources(host) for host in driver.hosts.values()}
    here, there = hold(driver, options)
    held = resources(driver.a)
    assert held["qp"] > before["a"]["qp"] and held["mr"] > before["a"]["mr"]
    here.kill()
    driver.a.wait_until("! pgrep -x u4r_hold >/dev/null", 20)
    assert resources(driver.a) == before["a"]
    there.kill()
    driver.b.wait_until("! pgrep -x u4r_hold >/dev/null", 20)
    assert resources(driver.b) == before["b"]
    verify(driver, "-m 2")


def test_peer_of_a_killed_process_is_told(driver):
    here, there = hold(driver, "-q 2")
    here.kill()
    out = ended_well(there)
    assert re.search(r"status .*retry", out), out


def test_many_sessions(driver):
    """Other drivers run out of protection domains after some sixty sessions."""
    before = resources(driver.a)
    driver.a.run("for i in $(seq 70); do u4r_hold -l -i -t 1 >/dev/null & "
                 "[ $((i % 10)) = 0 ] && { sleep 0.5; pkill -9 -x u4r_hold; wait; }; done; wait",
                 timeout=180)
    driver.a.wait_until("! pgrep -x u4r_hold >/dev/null", 20)
    assert resources(driver.a) == before
    verify(driver, "-m 2")


def test_module_removed_under_a_process(driver):
    """Refused, or clean: the process is told and everything it posted comes back."""
    job = driver.a.start(f"u4r_hold -d {DEVICE} -l -q 2 -t 60", 120)
    job.wait_for("READY", 30)
    removed = driver.a.run("rmmod usb4_rdma", timeout=60)
    if not removed.ok:
        assert "in use" in removed.err
        job.kill()
        driver.a.run("rmmod usb4_rdma", timeout=60, check=True)
    else:
        out = ended_well(job)
        assert "event" in out
    driver.a.run("modprobe usb4_rdma", check=True)
    usable(driver)


def test_one_sided_reload(driver):
    for host in (driver.b, driver.a, driver.b):
        host.run("rmmod usb4_rdma", timeout=60, check=True)
        host.wait_until(GONE, 20)
        host.run("modprobe usb4_rdma", check=True)
        usable(driver)


def test_module_removed_in_traffic(driver):
    here, there = hold(driver, "-q 2")
    removed = driver.b.run("rmmod usb4_rdma", timeout=60)
    if not removed.ok:
        assert "in use" in removed.err
        there.kill()
        driver.b.run("rmmod usb4_rdma", timeout=60, check=True)
    else:
        ended_well(there)
    ended_well(here)
    driver.b.run("modprobe usb4_rdma", check=True)
    usable(driver)


@pytest.mark.parametrize("number", range(UNPLUGS))
def test_unplug_in_traffic(driver, number):
    """Every request is flushed, the port's event is raised, and a replug cures it: the
    next round waits until data flows both ways, every fifth compares them."""
    jobs = hold(driver, "-q 2 -u" if number % 4 == 3 else "-q 2")
    driver.unplug()
    for job in jobs:
        out = ended_well(job)
        assert "Work Request Flushed Error" in out
        assert "event port error" in out
    replug(driver)
    if number % 5 == 4:
        usable(driver)
    else:
        active(driver)


def test_pulled_while_idle(driver):
    """A process that only waits for receives is told too."""
    jobs = hold(driver, "-q 1 -i")
    driver.unplug()
    for job in jobs:
        assert "event port error" in ended_well(job)
    replug(driver)
    usable(driver)


def test_perftest_after_all_that(driver):
    words = f"ib_send_bw -d {DEVICE} -F -s 65536 -n 500"
    run_pair(driver, words, words + " {address}")
