# SPDX-License-Identifier: GPL-2.0
"""The cable's control socket, its limits, and what it costs when nothing happens."""

import json
import re
import socket

import pytest

from cables import PATIENCE, bandwidth_mbps
from lab import LabError


def test_control_socket_survives_garbage(lab):
    """What is not a command is refused, and the cable goes on."""
    path = str(lab.vcable.control)
    for garbage in (b"\x00\xff\xfe\n", b"{\n", b"[]\n", b'{"cmd":7}\n', b"x" * 100_000):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(path)
            client.sendall(garbage)
            client.shutdown(socket.SHUT_WR)
            reply = json.loads(client.makefile().readline())
            assert reply["ok"] is False and reply["error"]
    for request in ({"cmd": "fly"}, {"cmd": "plug", "cable": "c9"}, {"cmd": "plug"},
                    {"cmd": "fault", "kind": "drop", "one_in": 0}):
        with pytest.raises(LabError, match="refuses"):
            lab.cable(request)
    lab.wait_discovery()
    assert lab.cable({"cmd": "plugged", "cable": "c0"})["up"] is True


def test_idle_cost(lab):
    """With the network up and nothing to do, the cable takes less than 6 % of a processor."""
    lab.wait_discovery()
    lab.network(PATIENCE)
    lab.a.run("sleep 3")
    before = lab.vcable.cpu_seconds()
    lab.a.run("sleep 10")
    used = (lab.vcable.cpu_seconds() - before) / 10
    print(f"idle: {used:.3f} of a processor")
    assert used < 0.06


def test_link_limits(lab):
    """Limits of rate and latency are kept, and change while the cable is plugged."""
    lab.wait_discovery()
    address = lab.network(PATIENCE)["b"]
    try:
        lab.cable({"cmd": "link", "cable": "c0", "rate_mbps": 40})
        limited = bandwidth_mbps(lab, address)
        lab.cable({"cmd": "link", "cable": "c0", "rate_mbps": 20, "latency_us": 20_000})
        ping = lab.a.run(f"ping -q -c 5 {address}", check=True).out
        halved = bandwidth_mbps(lab, address)
    finally:
        lab.cable({"cmd": "link", "cable": "c0"})
    fastest = float(re.search(r"= ([0-9.]+)/", ping).group(1))
    print(f"at 40: {limited:.1f} Mb/s, at 20 and 20 ms: {halved:.1f} Mb/s, ping {fastest} ms")
    assert limited < 41 and halved < 21
    assert fastest >= 40
