# SPDX-License-Identifier: GPL-2.0
"""`make test`: every test of the tree, and one closing line that sums them.

  scripts/lab tests [--skip-lab] [-k EXPRESSION]

Order: style, then the crates and a batch of seeds of the simulation (no guest needed), then tests/lab in
the guests.
"""

import argparse
import dataclasses
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree

from . import build, places, procs
from .places import TOP, LabError, say

# A crate's or directory's tests that take longer than this have hung (s).
CARGO_PATIENCE = 900
PYTEST_PATIENCE = 3600
# Seeds of the simulation in each run; always the same ones, so that a failure is the change's. At most four
# minutes on two processors.
SIM_SEEDS = 20000
CARGO_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")


@dataclasses.dataclass
class Tally:
    """Numbers of tests."""
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other):
        """Adds another tally to this one."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def crates():
    """Directories of the tree's crates that cargo can test."""
    found = []
    for manifest in sorted(TOP.glob("t*/*/Cargo.toml")):
        found.append(manifest.parent)
    return found


def stream(argv, patience, **environment):
    """Runs a program, passes its output on, and returns (exit code, lines)."""
    child = subprocess.Popen([str(word) for word in argv], cwd=TOP, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace",
                             start_new_session=True, env=dict(os.environ, **environment))
    deadline, lines = time.monotonic() + patience, []
    try:
        for line in child.stdout:
            lines.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()
            if time.monotonic() > deadline:
                say(f"gave up after {patience} s: {argv[0]}")
                break
        return (child.wait(5) if time.monotonic() <= deadline else 1), lines
    finally:
        procs.stop(child)


def test_crate(folder):
    """Runs a crate's tests."""
    say(f"cargo test in {folder.relative_to(TOP)}")
    target = places.build_dir() / folder.name
    code, lines = stream(["cargo", "test", "--locked", "--manifest-path", folder / "Cargo.toml"],
                         CARGO_PATIENCE, CARGO_TARGET_DIR=str(target))
    tally = Tally()
    for line in lines:
        found = CARGO_RESULT.match(line)
        if found:
            tally.add(Tally(*map(int, found.groups())))
    # A crate that does not compile has no result line of its own.
    if code and not tally.failed:
        tally.failed += 1
    return tally


def test_sim():
    """Runs a batch of seeds of the protocol's simulation; it counts as one test."""
    say(f"{SIM_SEEDS} seeds of the simulation")
    code, _ = stream([TOP / "scripts/sim"], CARGO_PATIENCE, SEEDS=str(SIM_SEEDS), FIRST="1", SEED="")
    return Tally(failed=1) if code else Tally(passed=1)


def test_python(folder, options):
    """Runs pytest on a directory."""
    say(f"pytest {folder.relative_to(TOP)}")
    results = places.build_dir() / f"results-{os.getpid()}.xml"
    code, _ = stream([sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--color=no",
                      "--durations=10", f"--junitxml={results}", *options, folder],
                     PYTEST_PATIENCE)
    tally = Tally()
    if results.exists():
        for suite in xml.etree.ElementTree.parse(results).iter("testsuite"):
            count = {key: int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped")}
            failed = count["failures"] + count["errors"]
            tally.add(Tally(count["tests"] - failed - count["skipped"], failed, count["skipped"]))
        results.unlink()
    # Exit code 5: nothing was selected, which -k may well mean.
    if code not in (0, 5) and not tally.failed:
        tally.failed += 1
    return tally


def run(args):
    """Runs everything that was asked for and returns the sum."""
    options = ["-k", args.keyword] if args.keyword else []
    steps = [(lambda: test_python(TOP / "tests/style", options))]
    if not args.keyword:
        steps += [lambda folder=folder: test_crate(folder) for folder in crates()] + [test_sim]
    if not args.skip_lab and (TOP / "tests/lab").is_dir():
        steps.append(lambda: test_lab(options))
    total = Tally()
    for step in steps:
        tally = step()
        say(f"{tally}")
        total.add(tally)
    return total


def test_lab(options):
    """Builds what the guests need, then runs the tests that use them."""
    try:
        build.stage()
    except LabError as error:
        say(f"error: {error}")
        return Tally(failed=1)
    return test_python(TOP / "tests/lab", options)


def main():
    """Command line of `make test`."""
    parser = argparse.ArgumentParser(prog="make test ARGS=")
    parser.add_argument("--skip-lab", action="store_true", help="no guests")
    parser.add_argument("-k", dest="keyword", help="pytest's -k; leaves the crates out")
    args = parser.parse_args()
    started = time.monotonic()
    total = run(args)
    say(f"all tests took {time.monotonic() - started:.0f} s")
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    procs.exit_on_signals()
    sys.exit(main())
