# SPDX-License-Identifier: GPL-2.0
"""`make demo`: two hosts, a cable, and unmodified programs over usb4_rdma0."""

import dataclasses
import re
import sys
import time

from . import lab, places, procs, programs
from .places import LabError, say

DEVICE = "usb4_rdma0"
VERIFY_MIB = 256
PATIENCE = 120


@dataclasses.dataclass
class Row:
    """One program of the demo: `run(bench)` returns its result in words."""
    program: str
    what: str
    run: object


class Bench:
    """The two hosts, as the demo's programs see them: client a, server b."""

    def __init__(self, running, addresses):
        self.client, self.server = running.a, running.b
        self.address = addresses["b"]
        self.gid = {host.name: programs.gid_index(host, DEVICE, addresses[host.name])
                    for host in running.hosts.values()}

    def pair(self, command, timeout=PATIENCE):
        """Runs a pair and raises if either end failed."""
        outcome = programs.pair(self.server, self.client, self.address, command, timeout=timeout)
        if not outcome.ok:
            raise LabError(outcome.text())
        return outcome


def devinfo(bench):
    """ibv_devinfo on both hosts."""
    for host in (bench.client, bench.server):
        out = host.run(f"ibv_devinfo -d {DEVICE}", check=True).out
        if "PORT_ACTIVE" not in out:
            raise LabError(f"host {host.name}: no active port\n{out}")
    mtu = re.search(r"active_mtu:\s+(\d+)", out).group(1)
    return f"port active, MTU {mtu}"


def pingpong(kind):
    """ibv_rc_pingpong or ibv_uc_pingpong, with every byte compared (-c)."""
    def run(bench):
        program = f"ibv_{kind}_pingpong -d {DEVICE} -c -n 1000 -s 4096"
        outcome = programs.pair(
            bench.server, bench.client, bench.address,
            f"{program} -g {bench.gid['b']}", f"{program} -g {bench.gid['a']}", PATIENCE)
        if not outcome.ok or "invalid data" in outcome.client.out + outcome.server.out:
            raise LabError(outcome.text())
        took = re.search(r"= ([\d.]+) usec/iter", outcome.client.out).group(1)
        return f"data valid, {took} us a round trip"
    return run


def bandwidth(program, size, iterations, options=""):
    """A perftest bandwidth program."""
    def run(bench):
        command = f"{program} -d {DEVICE} -F -s {size} -n {iterations} {options}"
        return programs.rate(programs.bandwidth(bench.pair(command)).bits_per_second)
    return run


def latency(program, iterations=500):
    """A perftest latency program at 64 bytes."""
    def run(bench):
        typical, high = programs.latency(
            bench.pair(f"{program} -d {DEVICE} -F -s 64 -n {iterations}"))
        return f"{typical:.0f} us typical, {high:.0f} us 99 %"
    return run


def verify(bench):
    """u4r_verify: both ways at once, all operations, every byte compared."""
    outcome = bench.pair(f"u4r_verify -d {DEVICE} -m {VERIFY_MIB} -s 1", timeout=300)
    moved = 2 * VERIFY_MIB * 8 * 2**20
    return f"every byte right, {programs.rate(moved / outcome.client.seconds)} both ways"


def rows():
    """The demo's programs."""
    table = [Row("ibv_devinfo", "both hosts", devinfo),
             Row("ibv_rc_pingpong -c", "4 KiB", pingpong("rc")),
             Row("ibv_uc_pingpong -c", "4 KiB", pingpong("uc"))]
    for name in ("send", "write", "read"):
        table.append(Row(f"ib_{name}_bw", "RC 64 KiB", bandwidth(f"ib_{name}_bw", 65536, 1000)))
        table.append(Row(f"ib_{name}_bw", "RC 1 MiB", bandwidth(f"ib_{name}_bw", 1 << 20, 100)))
    table += [Row("ib_send_bw -c UC", "64 KiB", bandwidth("ib_send_bw", 65536, 1000, "-c UC")),
              Row("ib_send_bw -e", "RC 64 KiB", bandwidth("ib_send_bw", 65536, 1000, "-e")),
              Row("ib_send_bw -q 8", "RC 64 KiB", bandwidth("ib_send_bw", 65536, 200, "-q 8"))]
    for name in ("send", "write", "read"):
        table.append(Row(f"ib_{name}_lat", "RC 64 B", latency(f"ib_{name}_lat")))
    table.append(Row("u4r_verify", f"{VERIFY_MIB} MiB each way", verify))
    return table


def run_rows(bench, running):
    """Runs every program; returns [(row, result or None, seconds)] and the failures."""
    done, failures = [], []
    for row in rows():
        started = time.monotonic()
        try:
            result = row.run(bench)
        except LabError as error:
            result = None
            failures.append(f"{row.program} {row.what}:\n{error}")
        seconds = time.monotonic() - started
        done.append((row, result, seconds))
        say(f"{row.program}, {row.what}: {result or 'FAILED'} ({seconds:.1f} s)")
        if not all(host.alive for host in running.hosts.values()):
            failures.append("a guest has died")
            break
    return done, failures


def print_table(done):
    """The one table."""
    lines = [("program", "what", "result", "seconds")]
    lines += [(row.program, row.what, result or "FAILED", f"{seconds:.1f}")
              for row, result, seconds in done]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for index, line in enumerate(lines):
        print("  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip())
        if index == 0:
            print("  ".join("-" * width for width in widths))


def demo():
    """Runs the demo; returns the list of what failed."""
    with lab.Lab() as running:
        running.wait_discovery()
        say("each host has found the other")
        addresses = running.load_driver()
        say(f"{DEVICE} is active on both")
        done, failures = run_rows(Bench(running, addresses), running)
        print()
        print_table(done)
        failures += running.kernel_faults()
        if failures:
            print("\n" + "\n\n".join(failures))
            print(f"logs: {running.logs}")
    return failures


def main():
    """Command line."""
    try:
        failures = demo()
    except LabError as error:
        print(f"demo: FAILED: {error}\nlogs: {places.CACHE / 'run'}")
        return 1
    print(f"demo: FAILED ({len(failures)})" if failures else "demo: OK")
    return 1 if failures else 0


if __name__ == "__main__":
    procs.exit_on_signals()
    sys.exit(main())
