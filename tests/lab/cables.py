# SPDX-License-Identifier: GPL-2.0
"""What tests of the cable ask of guests in which nothing of ours is loaded."""

import json

# A new peer is known about 1.5 s after the plug; the rest is for a loaded machine.
PATIENCE = 60


def bandwidth_mbps(lab, address, *options):
    """Runs iperf3 from host a to b for two seconds; what arrived, in Mb/s."""
    server = lab.b.start("iperf3 -s -1 --forceflush")
    server.wait_for("listening", 30)
    words = ["iperf3", "-J", "-t", "2", "-c", address, *options]
    report = json.loads(lab.a.run(words, timeout=PATIENCE, check=True).out)
    server.wait()
    return report["end"]["sum_received"]["bits_per_second"] / 1e6


def no_strays(lab):
    """No access of a driver hit a place where there is no register."""
    counters = lab.cable({"cmd": "counters"})["counters"]
    strays = {name: value for name, value in counters.items() if name.endswith(".stray") and value}
    assert not strays, (lab.logs / "vcable.log").read_text()
