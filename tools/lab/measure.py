# SPDX-License-Identifier: GPL-2.0
"""Measurements of `make bench`: one function per kind, each returning a plain dict.

Every dict has `stack` (tcp, rxe, usb4_rdma) and `kind`; rates are in bits per second,
latencies in microseconds, `cpu_s_per_gib` in processor seconds of both guests.
"""

import json
import statistics

from . import programs
from .places import LabError

# One run of a bandwidth program aims at this long (s): below it set-up and slow start
# dominate, above it the whole bench takes too long.
AIM = 4.0
PATIENCE = 180
MIN_ITERATIONS = 8
# The first guess of a stack's rate, until one was measured (bit/s).
FIRST_GUESS = 30e6
GIB = 2**30


class Stack:
    """An RDMA device on both hosts, under test."""

    def __init__(self, running, name, device, address, options=""):
        self.lab = running
        self.name = name
        self.device = device
        self.address = address
        self.options = options
        self._rates = {}

    def command(self, program, options):
        """A perftest command line for this device."""
        return f"{program} -d {self.device} -F {self.options} {options}"

    def pair(self, command):
        """Runs a pair: client a, server b."""
        outcome = programs.pair(self.lab.b, self.lab.a, self.address, command, timeout=PATIENCE)
        if not outcome.ok:
            raise LabError(outcome.text())
        return outcome

    def iterations(self, program, size, qps):
        """How many messages of a queue pair fill AIM seconds."""
        expected = self._rates.get(program, FIRST_GUESS)
        return max(MIN_ITERATIONS, int(expected * AIM / 8 / size / qps))

    def bandwidth(self, operation, size, qps=1, event=False, both_ways=False, connection="RC"):
        """Bandwidth of send, write or read."""
        program = f"ib_{operation}_bw"
        iterations = self.iterations(program, size, qps)
        options = f"-c {connection} -s {size} -n {iterations} -q {qps}"
        options += (" -e" if event else "") + (" -b" if both_ways else "")
        before = cpu(self.lab)
        outcome = self.pair(self.command(program, options))
        used = cpu(self.lab) - before
        result = programs.bandwidth(outcome, both_ways)
        moved = result.size * result.iterations * (2 if both_ways else 1)
        # Large messages tell what the stack can do; small ones would shorten the next run.
        self._rates[program] = max(result.bits_per_second, self._rates.get(program, 0) / 2)
        return {"stack": self.name, "kind": "bandwidth", "operation": operation, "size": size,
                "qps": qps, "event": event, "both_ways": both_ways, "connection": connection,
                "rate": result.bits_per_second, "bytes": moved,
                "wall_s": outcome.client.seconds, "cpu_s_per_gib": used / moved * GIB}

    def latency(self, operation, size=64, iterations=1000):
        """Half round trip of send, write or read."""
        outcome = self.pair(self.command(f"ib_{operation}_lat", f"-s {size} -n {iterations}"))
        typical, high = programs.latency(outcome)
        return {"stack": self.name, "kind": "latency", "operation": operation, "size": size,
                "typical_us": typical, "p99_us": high}


def cpu(running):
    """Processor seconds that both guests have been busy."""
    return sum(running.each(lambda host: host.cpu_busy()).values())


def tcp(running, address, streams=1, both_ways=False, mtu=None):
    """iperf3 between the hosts."""
    if mtu:
        set_mtu(running, mtu)
    options = f"-P {streams} {'--bidir' if both_ways else ''}"
    before = cpu(running)
    outcome = programs.pair(running.b, running.a, "", "iperf3 -s -1 -p 5201",
                            f"iperf3 -c {address} -p 5201 -J -t {AIM + 1} {options}",
                            timeout=PATIENCE, port=5201)
    used = cpu(running) - before
    if not outcome.ok:
        raise LabError(outcome.text())
    end = json.loads(outcome.client.out)["end"]
    sums = [end["sum_received"]] + ([end["sum_received_bidir_reverse"]] if both_ways else [])
    moved = sum(part["bytes"] for part in sums)
    return {"stack": "tcp", "kind": "bandwidth", "operation": "stream", "qps": streams,
            "both_ways": both_ways, "mtu": mtu, "bytes": moved,
            "rate": sum(part["bits_per_second"] for part in sums),
            "cpu_s_per_gib": used / moved * GIB}


def tcp_latency(running, address, count=200):
    """Half round trip of a ping, which is TCP's and soft-RoCE's floor on this interface."""
    out = running.a.run(f"ping -i 0.01 -c {count} -q {address}", timeout=60, check=True).out
    average = float(out.rsplit("=", 1)[1].split("/")[1])
    return {"stack": "tcp", "kind": "latency", "operation": "ping", "size": 64,
            "typical_us": average * 500, "p99_us": None}


def set_mtu(running, mtu):
    """Sets thunderbolt0's MTU on both hosts."""
    running.run(f"ip link set thunderbolt0 mtu {mtu}")


def median(results, key="rate"):
    """The result in the middle, by one of its figures."""
    ordered = sorted(results, key=lambda result: result[key])
    return ordered[len(ordered) // 2]


def middle(values):
    """Median of plain numbers."""
    return statistics.median(values)
