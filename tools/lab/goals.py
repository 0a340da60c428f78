# SPDX-License-Identifier: GPL-2.0
"""What the bench is measured against, and the lines that say so."""

import dataclasses

LINK_MBPS = 400
# Documentation/wire.md: what a frame carries, and what it takes on the wire.
FRAME_BYTES = 4096
PAYLOAD_BYTES = 4032


@dataclasses.dataclass
class Goal:
    """One figure and the bound that it is to keep."""
    name: str
    figure: float
    bound: float
    at_least: bool = True
    note: str = ""

    @property
    def met(self):
        """True if the figure keeps the bound."""
        return self.figure >= self.bound if self.at_least else self.figure <= self.bound

    def __str__(self):
        sign = ">=" if self.at_least else "<="
        return (f"goal {self.name} {self.figure:.3g} {sign} {self.bound:.3g} "
                f"{'met' if self.met else 'short'}")


def payload_rate():
    """What a link of LINK_MBPS can carry of the application's data one way (bit/s)."""
    return LINK_MBPS * 1e6 * PAYLOAD_BYTES / FRAME_BYTES


def evaluate(figures):
    """The goals, from a dict of the figures named below.

    *_64k: rates of a 64 KiB RC send, polling unless it says event; *_lat: microseconds of
    a 64 B send; limited_*: 1 MiB RC sends over the limited link.
    """
    f = figures
    both_modes = []
    for mode, suffix in (("poll", ""), ("event", "_event")):
        rate = f[f"usb4_64k{suffix}"]
        both_modes += [
            Goal(f"bandwidth_over_soft_roce_{mode}", rate / f["rxe_64k"], 3),
            Goal(f"bandwidth_over_tcp_{mode}", rate / f["tcp"], 1.5),
            Goal(f"8_mib_over_64_kib_{mode}", f[f"usb4_8m{suffix}"] / rate, 1.0),
            Goal(f"limited_link_one_way_{mode}", f[f"limited_one_{mode}"] / payload_rate(), 0.95),
            Goal(f"limited_link_both_ways_{mode}",
                 f[f"limited_both_{mode}"] / (2 * payload_rate()), 0.95)]
    return both_modes + [
        Goal("8_queue_pairs_over_1", f["usb4_64k_8qp"] / f["usb4_64k"], 1.0),
        Goal("send_latency_over_soft_roce", f["usb4_lat"] / f["rxe_lat"], 0.5, False),
        Goal("event_over_poll", f["usb4_64k_event"] / f["usb4_64k"], 0.9),
        Goal("spurious_retransmits", f["retransmits"], 0, False),
    ]
