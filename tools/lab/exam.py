# SPDX-License-Identifier: GPL-2.0
"""`make exam`: programs and suites that judge RDMA devices, run over usb4_rdma0.

  scripts/lab exam [--profile NAME] [--group NAME]... [-k WORD]...

A group is a function(exam) that calls `exam.row` for each of its rows. Every row is
printed as it ends; the last line is `N passed, N failed, N skipped`.
"""

import argparse
import sys
import time

from . import exam_perftest, exam_pyverbs, lab, procs, programs
from .places import LabError, say
from .tests import Tally

DEVICE = "usb4_rdma0"
GROUPS = {"pyverbs": exam_pyverbs.run, "perftest": exam_perftest.run}
OUTCOMES = ("passed", "failed", "skipped")


class Exam:
    """The lab under exam, and what was found."""

    def __init__(self, running, addresses, words):
        self.lab = running
        self.device = DEVICE
        self.addresses = addresses
        self.words = words
        self.gid = {host.name: programs.gid_index(host, DEVICE, addresses[host.name])
                    for host in running.hosts.values()}
        self.tally = Tally()
        self.failures = []

    def wanted(self, name):
        """Was this row asked for?"""
        return not self.words or any(word in name for word in self.words)

    def row(self, group, name, outcome, why="", seconds=0.0):
        """Takes down and prints one row; `outcome` is passed, failed or skipped."""
        assert outcome in OUTCOMES, outcome
        setattr(self.tally, outcome, getattr(self.tally, outcome) + 1)
        text = f"{outcome:7} {group}: {name} ({seconds:.1f} s)"
        if why:
            text += f": {why}"
        if outcome == "failed":
            self.failures.append(text)
        print(text, flush=True)

    def check(self, group, name, call):
        """Runs one row: `call()` returns what to print, and raises LabError if it failed."""
        if not self.wanted(name):
            return
        started = time.monotonic()
        try:
            outcome, why = "passed", call()
        except LabError as error:
            outcome, why = "failed", str(error)
        self.row(group, name, outcome, why or "", time.monotonic() - started)


def take(exam, groups):
    """Runs groups one after the other, and looks at the kernels' logs after each."""
    for name in groups:
        say(f"group {name}")
        GROUPS[name](exam)
        for fault in exam.lab.kernel_faults():
            exam.row(name, "kernel log", "failed", fault)
        dead = [host.name for host in exam.lab.hosts.values() if not host.alive]
        if dead:
            exam.row(name, "guests", "failed", f"dead: {' '.join(dead)}")
            return


def main():
    """Command line."""
    parser = argparse.ArgumentParser(prog="make exam ARGS=")
    parser.add_argument("--profile", default="tb4", help="amd, tb4 or tb5")
    parser.add_argument("--group", action="append", choices=sorted(GROUPS), help="not all groups")
    parser.add_argument("-k", dest="words", action="append", default=[],
                        help="rows whose name holds this word")
    args = parser.parse_args()
    with lab.Lab(profile=args.profile) as running:
        running.wait_discovery()
        exam = Exam(running, running.load_driver(), args.words)
        take(exam, args.group or list(GROUPS))
        logs = running.logs
    for line in exam.failures:
        print(line)
    if exam.failures:
        print(f"logs: {logs}")
    print(exam.tally)
    return 1 if exam.tally.failed or not exam.tally.passed else 0


if __name__ == "__main__":
    procs.exit_on_signals()
    sys.exit(main())
