#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs rdma-core's pyverbs tests in a guest, each in a process of its own.

  pyverbs_runner.py TESTS DEVICE GID TIMEOUT [WORD...]

TESTS is the directory of the distribution's package (the files may be gzipped; they are
used as they are). Only tests whose name holds one of the words run; all without any.
Prints one JSON object a line: {"test", "outcome": passed|failed|skipped, "why", "seconds"}.

In one process Python's collector destroys verbs objects after the context they belong
to, and a test that hangs or crashes would take the rest with it.
"""

import gzip
import json
import os
import pathlib
import select
import shutil
import signal
import sys
import tempfile
import time
import unittest


def unpack(source):
    """A package directory `tests` with every file unpacked; its parent."""
    parent = pathlib.Path(tempfile.mkdtemp(prefix="pyverbs-"))
    target = parent / "tests"
    target.mkdir()
    for path in pathlib.Path(source).iterdir():
        if path.suffix == ".gz":
            (target / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        elif path.is_file():
            shutil.copy(path, target)
    return parent


def load(parent, device, gid):
    """All test cases, loaded the way the package's own run_tests.py loads them."""
    sys.path[:0] = [str(parent), str(parent / "tests")]
    sys.argv = ["run_tests.py", "--dev", device, "--gid", gid]
    from args_parser import parser  # the package's, found by the path above
    parser.parse_args()
    return flatten(unittest.defaultTestLoader.loadTestsFromModule(__import__("tests")))


def flatten(suite):
    """The cases of nested suites."""
    if isinstance(suite, unittest.TestCase):
        return [suite]
    return [case for part in suite for case in flatten(part)]


def judge(case):
    """Runs one case in this process: (outcome, why)."""
    result = unittest.TestResult()
    case.run(result)
    bad = result.errors + result.failures
    if bad:
        lines = [line for line in bad[0][1].splitlines() if line.strip()]
        place = [line.strip() for line in lines if line.lstrip().startswith("File")]
        return "failed", f"{lines[-1]} ({place[-1] if place else '?'})"
    if result.skipped:
        return "skipped", result.skipped[0][1]
    return "passed", ""


def run_forked(case, timeout):
    """Runs one case in a child of its own process group: (outcome, why)."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(read)
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        os.write(write, json.dumps(judge(case)).encode()[:4000])
        # Without the interpreter's own end, which destroys objects in any order.
        os._exit(0)
    os.close(write)
    ready = select.select([read], [], [], timeout)[0]
    told = os.read(read, 4096) if ready else b""
    os.close(read)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    status = os.waitpid(child, 0)[1]
    if told:
        return json.loads(told)
    if not ready:
        return "failed", f"no end within {timeout} s"
    return "failed", f"ended without a word, wait status {status:#x}"


def main():
    """Command line."""
    source, device, gid, timeout, *words = sys.argv[1:]
    for case in load(unpack(source), device, gid):
        name = case.id().removeprefix("tests.")
        if words and not any(word in name for word in words):
            continue
        started = time.monotonic()
        outcome, why = run_forked(case, float(timeout))
        print(json.dumps({"test": name, "outcome": outcome, "why": why,
                          "seconds": round(time.monotonic() - started, 2)}), flush=True)


if __name__ == "__main__":
    main()
