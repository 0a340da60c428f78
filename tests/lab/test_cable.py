# SPDX-License-Identifier: GPL-2.0
"""The cable as the guests' own drivers see it: each kind of host, and both modes."""

import pytest

from cables import PATIENCE, bandwidth_mbps, no_strays
from lab import Lab

# Each profile, each mode, and hosts that are not alike.
PAIRS = [("amd", "amd", "sync"), ("tb4", "tb4", "sparse"), ("tb5", "tb5", "sparse"),
         ("amd", "tb5", "sparse"), ("tb5", "amd", "sync")]


def stream_service(host):
    """Name of the peer's stream service, as configfs wants it."""
    find = "grep -lx stream /sys/bus/thunderbolt/devices/*/key"
    host.wait_until(f"{find} >/dev/null 2>&1", PATIENCE)
    path = host.run(find, check=True).out.split()[0]
    return path.split("/")[-2]


def open_stream(lab):
    """Makes a stream with the name `data` between both hosts; the service's names."""
    lab.run("mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config;"
            "modprobe thunderbolt_stream")
    for host in (lab.a, lab.b):
        root = f"/sys/kernel/config/thunderbolt/stream/{stream_service(host)}"
        host.run(f"mkdir -p {root}/data", check=True)
        if host is lab.a:
            host.run(f"echo -1 > {root}/data/in_hopid && echo -1 > {root}/data/out_hopid",
                     check=True)
            # The other host reads the HopIDs from the properties that are announced now.
            host.run("sleep 5")


def carry_file(lab, size_mib):
    """thunderbolt_stream carries a file, and its checksum is the same on both hosts."""
    lab.a.run(f"dd if=/dev/urandom of=/tmp/sent bs=1M count={size_mib}", check=True)
    reader = lab.b.start("timeout 100 cat /dev/tbstream0 > /tmp/received")
    lab.b.run("sleep 1")
    lab.a.run("cat /tmp/sent > /dev/tbstream0", timeout=100, check=True)
    assert reader.wait().ok
    sums = [host.run(f"sha256sum < /tmp/{name}", check=True).out.split()[0]
            for host, name in ((lab.a, "sent"), (lab.b, "received"))]
    assert sums[0] == sums[1]
    assert lab.b.run("stat -c %s /tmp/received").out.strip() == str(size_mib << 20)


@pytest.mark.parametrize("first,second,mode", PAIRS)
def test_stock_drivers(first, second, mode):
    """Discovery; thunderbolt-net with ping and iperf3; thunderbolt_stream with a file."""
    with Lab(profile={"a": first, "b": second}, mode=mode) as lab:
        lab.wait_discovery()
        for host in (lab.a, lab.b):
            assert "new host found" in host.dmesg()
        address = lab.network(PATIENCE)["b"]
        ping = lab.a.run(f"ping -q -A -c 100 -s 56 {address}", timeout=60, check=True).out
        assert " 0% packet loss" in ping
        forward = bandwidth_mbps(lab, address)
        backward = bandwidth_mbps(lab, address, "-R")
        print(f"{first}-{second} {mode}: {ping.splitlines()[-1]}; "
              f"{forward:.0f} and {backward:.0f} Mb/s")
        # What is asked for is that it carries a load, not how much on a shared machine.
        assert min(forward, backward) > 0.5
        open_stream(lab)
        carry_file(lab, 16 if mode == "sparse" else 2)
        no_strays(lab)
        lab.check_logs()
