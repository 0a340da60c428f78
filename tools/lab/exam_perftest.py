# SPDX-License-Identifier: GPL-2.0
"""Exam group: the perftest matrix. perftest does not look at the data; other groups do."""

from . import programs
from .places import LabError

PATIENCE = 240
# Options that every bandwidth program is run with, one after the other.
VARIANTS = ["-a -n 10", "-q 8 -s 65536 -n 50", "-q 64 -s 4096 -n 50", "-b -s 65536 -n 200",
            "-e -s 65536 -n 200"]
LATENCY_VARIANTS = ["-a -n 20", "-e -s 64 -n 200"]
# Operation -> transports on which it is legal.
LEGAL = {"send": ["RC", "UC"], "write": ["RC", "UC"], "read": ["RC"], "atomic": ["RC"]}


def options(operation, variants):
    """The variants that this program has."""
    for variant in variants:
        # An atomic is 8 bytes long; WRITE has no events: its target sees no completion.
        if operation == "atomic":
            if "-a" in variant:
                continue
            variant = " ".join(word for word in variant.replace("-s 65536", "").replace(
                "-s 4096", "").replace("-s 64", "").split())
        if operation == "write" and "-e" in variant:
            continue
        yield variant


def rows():
    """All command lines without the device."""
    for operation, transports in LEGAL.items():
        for kind, variants in (("bw", VARIANTS), ("lat", LATENCY_VARIANTS)):
            for transport in transports:
                for variant in options(operation, variants):
                    yield f"ib_{operation}_{kind} -c {transport} {variant}"
    # A shared receive queue serves SENDs only.
    for variant in ("-s 65536 -n 200", "-q 8 -s 65536 -n 50"):
        yield f"ib_send_bw -c RC --use-srq {variant}"
    yield "ib_send_lat -c RC --use-srq -s 64 -n 200"


def run(exam):
    """Client a, server b, for each row."""
    for row in rows():
        exam.check("perftest", row, lambda row=row: one(exam, row))


def one(exam, row):
    """Runs one pair; the figure in words."""
    program, words = row.split(" ", 1)
    outcome = programs.pair(exam.lab.b, exam.lab.a, exam.addresses["b"],
                            f"{program} -d {exam.device} -F {words}", timeout=PATIENCE)
    if not outcome.ok:
        raise LabError(outcome.text())
    if "_bw" in program:
        return programs.rate(programs.bandwidth(outcome, "-b" in words).bits_per_second)
    typical, _ = programs.latency(outcome)
    return f"{typical:.0f} us"
