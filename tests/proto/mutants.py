# SPDX-License-Identifier: GPL-2.0
"""Plants each bug of mutants.toml in a copy of the core and runs the simulation until it is found.

  make sim-mutants [SEEDS=n]    (the seeds that each may take; default 20,000)

Exit code 1 when one survives, does not compile, or its old line is no longer there.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
CORE = "drivers/usb4_rdma/proto"
# A bug may make the simulation hang in itself (s).
PATIENCE = 600


def plant(text, mutant):
    """The file with the bug in it. Raises LookupError when the old line is not what the table thinks."""
    lines = text.splitlines(keepends=True)
    found = [i for i, line in enumerate(lines) if line.strip() == mutant["old"].strip()]
    nth = mutant.get("nth")
    if not found or (nth is None and len(found) > 1) or (nth or 1) > len(found):
        raise LookupError(f"the old line is there {len(found)} times")
    at = found[(nth or 1) - 1]
    indent = lines[at][:len(lines[at]) - len(lines[at].lstrip())]
    lines[at] = indent + mutant["new"] + "\n"
    return "".join(lines)


def copy_tree(build):
    """A fresh copy of core and simulation; modification times stay, so that cargo builds no more than it must."""
    for part in (CORE, "tests/proto/src"):
        shutil.rmtree(build / part, ignore_errors=True)
        shutil.copytree(TOP / part, build / part)
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy2(HERE / name, build / "tests/proto" / name)


def hunt(build, seeds):
    """Builds and runs; what became of it in words, and whether the bug was found."""
    environment = dict(os.environ, CARGO_TARGET_DIR=str(build / "target"), SEEDS=str(seeds), FIRST="1", SEED="",
                       RUST_BACKTRACE="0")
    made = subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "--bin", "sim"],
                          cwd=build / "tests/proto", env=environment, stderr=subprocess.PIPE, text=True, check=False)
    if made.returncode:
        return "does not compile:\n" + made.stderr, False
    try:
        ran = subprocess.run([str(build / "target/release/sim")], env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return f"hangs for {PATIENCE} s", False
    seed = re.search(r"seed (\d+) FAILED", ran.stdout)
    if ran.returncode == 0 or not seed:
        return f"SURVIVED {seeds} seeds", False
    said = re.search(r"panicked at ([^\n]*):\n([^\n]*)", ran.stdout)
    where = f"{pathlib.Path(said[1]).name} {said[2][:70]}" if said else ""
    return f"seed {seed[1]}: {where}", True


def main():
    """Runs the whole table, or those whose name has the argument in it."""
    build = pathlib.Path(os.environ["U4R_MUTANTS"])
    (build / "tests/proto").mkdir(parents=True, exist_ok=True)
    seeds = int(os.environ.get("SEEDS") or 20000)
    mutants = tomllib.loads((HERE / "mutants.toml").read_text())["mutant"]
    wanted = [m for m in mutants if all(word in m["name"] for word in sys.argv[1:])]
    missed = 0
    for mutant in wanted:
        copy_tree(build)
        path = build / CORE / mutant["file"]
        begun = time.monotonic()
        try:
            path.write_text(plant(path.read_text(), mutant))
            said, found = hunt(build, seeds)
        except LookupError as error:
            said, found = str(error), False
        missed += not found
        print(f"{'found ' if found else 'MISSED'} {mutant['name']}: {said} ({time.monotonic() - begun:.0f} s)",
              flush=True)
    print(f"sim-mutants: {len(wanted) - missed} of {len(wanted)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
