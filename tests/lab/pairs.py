# SPDX-License-Identifier: GPL-2.0
"""Programs that run as a pair, one on each host, and what tests ask of the device."""

import re

DEVICE = "usb4_rdma0"
SYSFS = f"/sys/class/infiniband/{DEVICE}"
# Long enough for an emulated CPU that others use as well (s).
PATIENCE = 120


def run_pair(lab, server, client, timeout=PATIENCE, hosts=None):
    """Runs `server` on host a and, once it listens, `client` on host b with a's address.

    `{address}` in the client's words is that address. Both must end with 0. Returns
    the two Results. `hosts` names other hosts, the same one twice for loopback.
    """
    first, second = hosts or (lab.a, lab.b)
    address = lab.addresses[first.name]
    waiting = first.start(server, timeout)
    try:
        # A program that was started and does not listen yet refuses the connection:
        # ours try again, those of others are given the time.
        first.wait_until("ss -Hltn | grep -q ':185'", 30)
        there = second.run(client.format(address=address), timeout)
        here = waiting.wait(20 if there.ok else 5)
    finally:
        if waiting.running:
            waiting.kill()
    assert here.ok and there.ok, f"{here}\n{there}"
    return here, there


def verify(lab, options="", timeout=PATIENCE, hosts=None):
    """Runs u4r_verify with the same options on both sides; the two Results."""
    command = f"u4r_verify -d {DEVICE} -t {timeout} {options}"
    here, there = run_pair(lab, command, command + " {address}", timeout + 30, hosts)
    assert "every byte compared" in here.out and "every byte compared" in there.out
    return here, there


def gid_index(host):
    """Index of the RoCEv2 GID of the host's IPv4 address."""
    mapped = "^0000:0000:0000:0000:0000:ffff:"
    # Few processes: there are 128 entries, and a fork is slow on an emulated CPU.
    found = host.run(f"cd {SYSFS}/ports/1 && for i in $(grep -l {mapped} gids/*); do "
                     "grep -q v2 gid_attrs/types/${i#gids/} && echo ${i#gids/}; done")
    assert found.out.strip(), "no RoCEv2 GID of an IPv4 address"
    return min(int(number) for number in found.out.split())


def counters(host):
    """All hardware counters of the port, by name."""
    listing = host.run(f"cd {SYSFS}/ports/1/hw_counters && grep -H . *", check=True).out
    pairs = (line.split(":") for line in listing.split())
    return {name: int(value) for name, value in pairs if name != "lifespan"}


def resources(host):
    """Objects that programs hold, from `rdma resource`: kind -> number."""
    line = host.run(f"rdma resource show {DEVICE}", check=True).out
    # "0: usb4_rdma0: pd 1 cq 2 ..."
    words = line.split(":", 2)[2].split()
    return {kind: int(number) for kind, number in zip(words[::2], words[1::2])}


def data_rings(lab):
    """Numbers of host a's receive rings that are lanes: those that data comes through."""
    def received():
        values = lab.cable({"cmd": "counters"})["counters"]
        return {int(found.group(1)): value for name, value in values.items()
                if (found := re.fullmatch(r"host\.a\.rx(\d+)\.frames", name))}

    before = received()
    verify(lab, "-q 16 -m 16 -o w -M 1000000 -D 1")
    found = [ring for ring, value in received().items() if value - before.get(ring, 0) > 100]
    assert found
    return found
