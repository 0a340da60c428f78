# SPDX-License-Identifier: GPL-2.0
"""Runs client and server programs across the cable and reads their figures.

Rates are in bits per second on the application's data, times in seconds.
"""

import dataclasses
import re

from .places import LabError

PORT = 18515
# What the server's own end may take beyond the client's (s).
SERVER_GRACE = 20
# A program's set-up (device, registration, exchange over TCP) under TCG (s).
SETUP_ALLOWANCE = 12


@dataclasses.dataclass
class Outcome:
    """What a pair of programs did: the client's and the server's Result."""
    client: object
    server: object

    @property
    def ok(self):
        """True if both ended well."""
        return self.client.ok and self.server.ok

    def text(self):
        """Both outputs, for a person who has to find out what went wrong."""
        return f"--- client ---\n{self.client}\n--- server ---\n{self.server}"


def wait_listening(host, port=PORT, timeout=30):
    """Waits until a program in the guest listens on a TCP port."""
    host.wait_until(f"ss -Hltn sport = :{port} | grep -q .", timeout, period=0.1)


def pair(server, client, address, server_command, client_command=None, timeout=120, port=PORT):
    """Runs a program as server on one host, then as client on the other.

    `client_command` is the server's by default; the address is appended to it.
    """
    job = server.start(server_command, timeout + SERVER_GRACE)
    try:
        wait_listening(server, port)
        result = client.run(f"{client_command or server_command} {address}", timeout)
        if not result.ok:
            job.signal(15)
        return Outcome(result, job.wait(SERVER_GRACE + timeout))
    except LabError:
        if job.running:
            job.kill()
        raise


def gid_index(host, device, address):
    """Index of the RoCE v2 GID of an IPv4 address."""
    digits = "".join(f"{int(part):02x}" for part in address.split("."))
    wanted = f"0000:0000:0000:0000:0000:ffff:{digits[:4]}:{digits[4:]}"
    base = f"/sys/class/infiniband/{device}/ports/1"
    found = host.run(f"cd {base} && grep -l {wanted} gids/* | while read f; do i=${{f##*/}}; "
                     "grep -q 'RoCE v2' gid_attrs/types/$i && echo $i; done").out.split()
    if not found:
        raise LabError(f"host {host.name}: {device} has no RoCE v2 GID for {address}")
    return int(found[0])


@dataclasses.dataclass
class Bandwidth:
    """One line of a perftest bandwidth program."""
    size: int
    iterations: int
    bits_per_second: float


def bandwidth(outcome, both_ways=False):
    """The bandwidth that a perftest client reports, checked against wall time.

    perftest divides cycles by the `cpu MHz` of /proc/cpuinfo, which a virtual machine
    may get wrong. So the time that its figure implies must fit the client's wall time:
    not longer, and not shorter by more than its set-up. If it does not fit, the rate
    comes from the bytes and that wall time, which is then a lower bound.
    """
    found = re.findall(r"^\s*(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+[\d.]+\s*$",
                       outcome.client.out, re.MULTILINE)
    if not found:
        raise LabError(f"no bandwidth in\n{outcome.text()}")
    size, iterations = int(found[-1][0]), int(found[-1][1])
    bits = 8 * size * iterations * (2 if both_ways else 1)
    reported = float(found[-1][3]) * 8 * 2**20
    wall = outcome.client.seconds
    implied = bits / reported if reported else float("inf")
    if not wall - SETUP_ALLOWANCE <= implied <= wall * 1.02:
        reported = bits / wall
    return Bandwidth(size, iterations, reported)


def latency(outcome):
    """(typical, 99th percentile) half round trip in microseconds of a perftest client."""
    # The standard deviation may be printed as "-nan": a square root of rounding errors.
    found = re.findall(r"^\s*\d+\s+\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+"
                       r"(\S+)\s+([\d.]+)\s+([\d.]+)\s*$", outcome.client.out, re.MULTILINE)
    if not found:
        raise LabError(f"no latency in\n{outcome.text()}")
    return float(found[-1][2]), float(found[-1][5])


def rate(bits_per_second):
    """A rate as a person reads it."""
    if bits_per_second >= 1e9:
        return f"{bits_per_second / 1e9:.2f} Gb/s"
    return f"{bits_per_second / 1e6:.0f} Mb/s"
