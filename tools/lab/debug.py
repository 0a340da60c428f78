# SPDX-License-Identifier: GPL-2.0
"""`make test-debug`: the driver on a kernel with KASAN, lockdep, atomic-sleep and DMA checks and kmemleak.

One lab for all of it, as a boot takes minutes there. Each step moves data or takes
something away; after each both logs are searched, and at the end kmemleak scans twice.
"""

import sys
import time

from . import lab, programs, procs
from .places import LabError, say

PATIENCE = 300
# Slower than this no step of ours should be even here.
PROGRAM_PATIENCE = 240
# The host interface's rings on tb4; 0 is the control channel.
RINGS = range(1, 12)


def move(running, command):
    """A program pair across the cable; it must end well on both hosts."""
    outcome = programs.pair(running.b, running.a, running.addresses["b"], command,
                            timeout=PROGRAM_PATIENCE)
    if not outcome.ok:
        raise LabError(outcome.text())


def verify(running, options):
    """u4r_verify across the cable, every byte compared."""
    move(running, f"u4r_verify {options}")


def perftest(running, command):
    """A perftest pair."""
    move(running, f"{command} -d usb4_rdma0 -F")


def in_traffic(running):
    """Starts a perftest pair and lets it run for a while; (server, client)."""
    command = "ib_send_bw -d usb4_rdma0 -F -D 120"
    server = running.b.start(command)
    server.wait_for("Waiting for client", 60)
    client = running.a.start(f"{command} {running.addresses['b']}")
    time.sleep(15)
    return server, client


def killed(running):
    """A client that dies in its work."""
    for job in reversed(in_traffic(running)):
        job.kill()
        job.wait()


def reload(running):
    """rmmod and modprobe on one side, then both."""
    for hosts in ("a", "b", "ab"):
        for name in hosts:
            running.hosts[name].run("modprobe -r usb4_rdma", timeout=PATIENCE, check=True)
        for name in hosts:
            running.hosts[name].run("modprobe usb4_rdma", timeout=PATIENCE, check=True)
        running.wait_active(PATIENCE)


def replug(running):
    """The cable is pulled in traffic and plugged again."""
    server, client = in_traffic(running)
    running.unplug()
    client.wait()
    server.kill()
    server.wait()
    running.each(lambda host: host.wait_until(
        "! ls -d /sys/bus/thunderbolt/devices/[0-9]-[1-9] /sys/class/net/thunderbolt0 >/dev/null 2>&1",
        PATIENCE))
    running.plug()
    running.wait_discovery(PATIENCE)
    running.network(PATIENCE)
    running.wait_active(PATIENCE)


def faults(running):
    """Loss, stranded frames and flagged ones while every byte is compared."""
    for kind, one_in in (("drop", 200), ("strand-rx", 100), ("crc", 200)):
        for ring in RINGS:
            running.cable({"cmd": "fault", "kind": kind, "seed": 7 + ring, "one_in": one_in,
                           "host": "a", "hop": ring, "direction": "rx"})
    try:
        verify(running, "-m 4 -w 200")
    finally:
        running.cable({"cmd": "faults_clear"})


def bad_input(running):
    """Every case of our program that misuses the device."""
    for case in running.a.run("u4r_badinput -l", check=True).out.split():
        running.a.run(f"u4r_badinput -d usb4_rdma0 -t {PROGRAM_PATIENCE} {case}",
                      timeout=PROGRAM_PATIENCE + 20, check=True)


def leaks(running):
    """What kmemleak finds of ours after everything was unloaded."""
    running.run("modprobe -r usb4_rdma", timeout=PATIENCE)
    found = []
    for _ in range(2):
        running.run("echo scan > /sys/kernel/debug/kmemleak", timeout=PATIENCE)
        time.sleep(5)
    for name, host in running.hosts.items():
        out = host.run("cat /sys/kernel/debug/kmemleak", timeout=PATIENCE).out
        ours = [part for part in out.split("unreferenced object") if "u4r" in part or "usb4_rdma" in part]
        found += [f"host {name}: unreferenced object{part}" for part in ours]
    if found:
        raise LabError("\n".join(found))


STEPS = [("verify RC", lambda running: verify(running, "-m 8")),
         ("verify UC", lambda running: verify(running, "-m 4 -u")),
         ("verify, events, 4 queue pairs", lambda running: verify(running, "-m 4 -e -q 4")),
         ("ib_send_bw", lambda running: perftest(running, "ib_send_bw -n 200")),
         ("ib_read_bw", lambda running: perftest(running, "ib_read_bw -n 200")),
         ("ib_atomic_bw", lambda running: perftest(running, "ib_atomic_bw -n 200")),
         ("ib_send_lat", lambda running: perftest(running, "ib_send_lat -n 200")),
         ("bad input", bad_input),
         ("faults on the cable", faults),
         ("killed in traffic", killed),
         ("module reloaded", reload),
         ("cable replugged in traffic", replug),
         ("verify once more", lambda running: verify(running, "-m 4")),
         ("kmemleak", leaks)]


def step(running, name, action, known):
    """Runs one step; the reasons why it failed, if it did."""
    reasons = []
    try:
        action(running)
    except LabError as error:
        reasons.append(str(error))
    reasons += [fault for fault in running.kernel_faults() if fault not in known]
    known.update(reasons)
    return reasons


def main():
    """Command line of `make test-debug`."""
    passed, failed = 0, 0
    with lab.Lab() as running:
        running.wait_discovery(PATIENCE)
        running.addresses = running.load_driver(timeout=PATIENCE)
        known = set()
        for name, action in STEPS:
            started = time.monotonic()
            reasons = step(running, name, action, known)
            say(f"{name}: {'FAILED' if reasons else 'ok'} ({time.monotonic() - started:.0f} s)")
            for reason in reasons:
                print(reason)
            failed, passed = failed + bool(reasons), passed + (not reasons)
        print(f"logs: {running.logs}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    procs.exit_on_signals()
    sys.exit(main())
