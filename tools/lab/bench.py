# SPDX-License-Identifier: GPL-2.0
"""`make bench`: TCP, soft-RoCE and usb4_rdma side by side on one emulated cable."""

import argparse
import pathlib
import sys
import time

from . import goals, lab, measure, procs, report
from .places import TOP, LabError, say

SIZES = [4096, 16384, 65536, 262144, 1 << 20, 8 << 20]
OPERATIONS = ["send", "write", "read"]
QUEUE_PAIRS = [1, 2, 4, 8]
DEVICE = "usb4_rdma0"
# soft-RoCE needs room for a 4 KiB RDMA MTU and its headers; TCP is best with the most.
MTU_ROCE = 4300
MTUS_TCP = [1500, 65520]
# Figures that goals are made of are measured this many times, the median counts.
REPEATS = 3


class Bench:
    """Runs the measurements in order and keeps their results."""

    def __init__(self, running, quick=False):
        self.lab = running
        self.results = []
        self.failures = []
        # Runs of the yardsticks that failed: told, but not this project's failures.
        self.others = []
        self.sizes = [4096, 65536, 8 << 20] if quick else SIZES
        self.queue_pairs = [1, 8] if quick else QUEUE_PAIRS
        self.repeats = 1 if quick else REPEATS

    def take(self, what, call):
        """Runs one measurement; a failure is noted and the bench goes on."""
        started = time.monotonic()
        try:
            result = call()
        except LabError as error:
            kept = self.others if what.startswith("rxe") else self.failures
            kept.append(f"{what}: {error}")
            say(f"{what}: FAILED")
            return None
        figure = report.figure(result)
        say(f"{what}: {figure} ({time.monotonic() - started:.0f} s)")
        self.results.append(result)
        return result

    def repeated(self, what, call, key="rate"):
        """The median of several runs of one measurement; None if all failed."""
        taken = [self.take(f"{what} [{number + 1}]", call) for number in range(self.repeats)]
        taken = [result[key] for result in taken if result]
        return measure.middle(taken) if taken else None

    def tcp(self, address):
        """iperf3 over thunderbolt-net; the best of its settings is what counts."""
        best = 0
        for mtu in MTUS_TCP:
            best = max(best, self.repeated(
                f"TCP, MTU {mtu}", lambda mtu=mtu: measure.tcp(self.lab, address, mtu=mtu)) or 0)
        self.take("TCP, both ways", lambda: measure.tcp(self.lab, address, both_ways=True))
        self.take("ping", lambda: measure.tcp_latency(self.lab, address))
        return best

    def sweep(self, stack):
        """Bandwidth over message sizes, for each operation."""
        for operation in OPERATIONS:
            for size in self.sizes:
                self.take(f"{stack.name} {operation} {report.size_name(size)}",
                          lambda: stack.bandwidth(operation, size))

    def common(self, stack, prefix):
        """Sweep, latencies, and the figures that goals are made of."""
        self.sweep(stack)
        for operation in OPERATIONS[1:]:
            self.take(f"{stack.name} {operation} 64 B latency",
                      lambda operation=operation: stack.latency(operation))
        return {
            f"{prefix}_64k": self.repeated(f"{stack.name} send 64 KiB",
                                           lambda: stack.bandwidth("send", 65536)),
            f"{prefix}_lat": self.repeated(f"{stack.name} send 64 B latency",
                                           lambda: stack.latency("send"), "typical_us")}

    def queue_pairs_and_events(self, stack):
        """What only our device is measured for."""
        for number in self.queue_pairs:
            for event in (False, True):
                self.take(f"send 64 KiB, {number} QP, {'event' if event else 'poll'}",
                          lambda number=number, event=event:
                          stack.bandwidth("send", 65536, qps=number, event=event))
        return {
            "usb4_64k_8qp": self.repeated("send 64 KiB, 8 QP",
                                          lambda: stack.bandwidth("send", 65536, qps=8)),
            "usb4_64k_event": self.repeated("send 64 KiB, events",
                                            lambda: stack.bandwidth("send", 65536, event=True)),
            "usb4_8m": self.repeated("send 8 MiB", lambda: stack.bandwidth("send", 8 << 20)),
            "usb4_8m_event": self.repeated(
                "send 8 MiB, events", lambda: stack.bandwidth("send", 8 << 20, event=True))}

    def limited(self, stack):
        """The same cable with a slow link."""
        self.lab.cable({"cmd": "link", "cable": "c0", "rate_mbps": goals.LINK_MBPS,
                        "latency_us": 0})

        figures = {}
        for mode in ("poll", "event"):
            for ways in ("one", "both"):
                what = f"limited link, {ways} way{'s' if ways == 'both' else ''}, {mode}"
                figures[f"limited_{ways}_{mode}"] = self.repeated(
                    what, lambda mode=mode, ways=ways: stack.bandwidth(
                        "send", 1 << 20, event=mode == "event", both_ways=ways == "both")
                    | {"limited": goals.LINK_MBPS})
        return figures

    def retransmits(self):
        """Frames that both hosts have sent again so far."""
        return sum(self.lab.each(lambda host: host.counter("tx_retransmit")).values())

    def run(self):
        """Everything; returns the figures for the goals."""
        running = self.lab
        address = running.network()["b"]
        figures = {"tcp": self.tcp(address)}
        running.run("modprobe rdma_rxe")
        measure.set_mtu(running, MTU_ROCE)
        running.run("rdma link add rxe0 type rxe netdev thunderbolt0")
        figures |= self.common(measure.Stack(running, "rxe", "rxe0", address, "-m 4096"), "rxe")
        running.run("rdma link delete rxe0; modprobe -r rdma_rxe")
        running.load_driver(network=False)
        stack = measure.Stack(running, "usb4_rdma", DEVICE, address)
        figures |= self.common(stack, "usb4")
        figures |= self.queue_pairs_and_events(stack)
        figures |= {"retransmits": self.retransmits()}
        figures |= self.limited(stack)
        self.failures += running.kernel_faults()
        return figures


def finish(bench, figures, directory, took):
    """Writes the reports and prints the goals; the exit code."""
    missing = [name for name, value in figures.items() if value is None]
    lines = [] if missing else goals.evaluate(figures)
    document = {"figures": figures, "goals": [vars(goal) | {"met": goal.met} for goal in lines],
                "results": bench.results, "failures": bench.failures + bench.others,
                "seconds": took}
    report.write(pathlib.Path(directory), document, [str(goal) for goal in lines])
    print(f"report: {directory}/report.md, report.json, *.png")
    for failure in bench.others:
        print(f"soft-RoCE failed, which fails nothing here: {failure.splitlines()[0]}")
    for failure in bench.failures:
        print(f"failed: {failure}")
    for name in missing:
        print(f"failed: no figure for {name}")
    for goal in lines:
        print(goal)
    return 1 if missing or bench.failures else 0


def main():
    """Command line of `make bench`."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=")
    parser.add_argument("--quick", action="store_true", help="fewer sizes, no repeats")
    parser.add_argument("--profile", default="tb4")
    parser.add_argument("--out", default=str(TOP / "report"))
    args = parser.parse_args()
    started = time.monotonic()
    try:
        # No limit on the link: what is compared is what each stack makes of the same CPUs.
        with lab.Lab(profile=args.profile, rate_mbps=0, latency_us=0) as running:
            running.wait_discovery()
            bench = Bench(running, args.quick)
            figures = bench.run()
    except LabError as error:
        print(f"bench: FAILED: {error}")
        return 1
    return finish(bench, figures, args.out, time.monotonic() - started)


if __name__ == "__main__":
    procs.exit_on_signals()
    sys.exit(main())
