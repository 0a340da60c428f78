# SPDX-License-Identifier: GPL-2.0
"""Pulled cables and reloaded modules: each time the hosts find each other again."""

from cables import PATIENCE, no_strays
from lab import Lab, LabError

ROUNDS = 20
MOST_PUSHES = 2
PEER = "ls -d /sys/bus/thunderbolt/devices/0-1 >/dev/null 2>&1"
NETDEV = "ls -d /sys/class/net/thunderbolt0 >/dev/null 2>&1"


def reconnect(lab):
    """Sets addresses on the interfaces that came back, and pings; how often that needed a push.

    thunderbolt-net's login can be lost for good when a processor is late ("failed to allocate Rx
    HopID", or 60 retries): taking the interface down and up starts another. The cable knows nothing of
    that, so it is allowed, seldom.
    """
    lab.each(lambda host: host.wait_until(NETDEV, PATIENCE))
    pushes = 0
    try:
        lab.network(PATIENCE)
    except LabError:
        pushes = 1
        lab.run("ip link set thunderbolt0 down && ip link set thunderbolt0 up")
        lab.network(PATIENCE)
    lab.a.run("ping -c 2 -i 0.2 -W 5 10.99.0.2", check=True)
    return pushes


def test_replug():
    """Pulled and plugged again and again, the network comes back each time."""
    with Lab(profile="tb4", mode="sparse") as lab:
        lab.wait_discovery()
        lab.network(PATIENCE)
        pushes = 0
        for _ in range(ROUNDS):
            lab.unplug()
            lab.each(lambda host: host.wait_until(f"! {PEER}", PATIENCE))
            lab.plug()
            lab.wait_discovery(PATIENCE)
            pushes += reconnect(lab)
        assert pushes <= MOST_PUSHES
        no_strays(lab)
        lab.check_logs()


def test_module_reload():
    """One host's modules are taken out and put back; both find each other again."""
    with Lab(profile={"a": "amd", "b": "tb5"}, mode="sparse") as lab:
        lab.wait_discovery()
        lab.network(PATIENCE)
        pushes = 0
        for turn in range(ROUNDS):
            host = lab.b if turn % 2 else lab.a
            host.run("ip link set thunderbolt0 down; rmmod thunderbolt_net; rmmod thunderbolt",
                     check=True)
            host.run("modprobe thunderbolt; modprobe thunderbolt_net", check=True)
            lab.wait_discovery(PATIENCE)
            pushes += reconnect(lab)
        assert pushes <= MOST_PUSHES
        no_strays(lab)
        lab.check_logs()


def test_power_cycle():
    """A host that lost its power comes back as a new guest of the same router."""
    with Lab(profile="tb4", mode="sparse") as lab:
        lab.wait_discovery()
        lab.network(PATIENCE)
        lab.power_cycle("b")
        lab.wait_discovery(PATIENCE)
        reconnect(lab)
        lab.check_logs()
