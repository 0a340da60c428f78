# SPDX-License-Identifier: GPL-2.0
"""Exam group: rdma-core's own tests (pyverbs), as the distribution ships them."""

import json

from .places import TOP

TESTS = "/usr/share/doc/rdma-core/tests"
RUNNER = TOP / "tools/lab/guest/pyverbs_runner.py"
# The longest takes a few seconds under TCG.
TEST_PATIENCE = 60
PATIENCE = 1500


def run(exam):
    """Client and server of these tests share one device: host a's, over loopback."""
    host = exam.lab.a
    host.write("/run/pyverbs_runner.py", RUNNER.read_text())
    # Some tests want huge pages and skip without.
    host.write("/proc/sys/vm/nr_hugepages", "8")
    command = ["python3", "/run/pyverbs_runner.py", TESTS, exam.device, str(exam.gid["a"]),
               str(TEST_PATIENCE), *exam.words]
    rest = ""

    def line(stream, text):
        nonlocal rest
        if stream != "out":
            return
        *whole, rest = (rest + text).split("\n")
        for word in whole:
            row = json.loads(word)
            exam.row("pyverbs", row["test"], row["outcome"], row["why"], row["seconds"])

    result = host.start(command, PATIENCE, on_output=line).wait()
    if not result.ok:
        exam.row("pyverbs", "the runner itself", "failed", result.err[-2000:])
