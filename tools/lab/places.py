# SPDX-License-Identifier: GPL-2.0
"""Where the lab's parts lie, and how it tells what it is doing."""

import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("U4R_CACHE") or pathlib.Path.home() / ".cache/usb4_rdma")
# Log directories of this many past runs are kept.
KEEP_RUNS = 40

_counter = itertools.count(1)
_started = time.monotonic()


class LabError(Exception):
    """Something in the lab, rather than in what it tests, went wrong."""


def say(text):
    """Tells on standard error what goes on, with the seconds since the start."""
    print(f"[{time.monotonic() - _started:6.1f}s] {text}", file=sys.stderr, flush=True)


def _prepared(script, variable):
    """Directory that a prepare script made; the environment saves asking it again."""
    if variable not in os.environ:
        done = subprocess.run([TOP / "scripts" / script], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise LabError(f"scripts/{script} failed")
        os.environ[variable] = done.stdout.strip()
    return pathlib.Path(os.environ[variable])


def kernel():
    """Directory with `vmlinuz`, `release` and the build tree `src` of the lab's kernel."""
    script = "prepare-debug-kernel" if debug() else "prepare-kernel"
    return _prepared(script, "U4R_KERNEL_DIR")


def debug():
    """True if the guests are to run the kernel with KASAN and lockdep (U4R_DEBUG=1)."""
    return os.environ.get("U4R_DEBUG") == "1"


def guest():
    """Directory with `disk.ext4` and `initrd`."""
    return _prepared("prepare-guest", "U4R_GUEST_DIR")


def build_dir():
    """Object files of this checkout, outside it."""
    name = str(TOP).strip("/").replace("/", "-")
    path = CACHE / "build" / (name + ("-debug" if debug() else ""))
    path.mkdir(parents=True, exist_ok=True)
    return path


def new_run_dir():
    """A fresh directory for the logs of one lab; the oldest ones are removed."""
    runs = CACHE / "run"
    runs.mkdir(parents=True, exist_ok=True)
    old = sorted(runs.iterdir(), key=lambda path: path.lstat().st_mtime)
    for path in old[:-KEEP_RUNS]:
        shutil.rmtree(path, ignore_errors=True)
    name = time.strftime("%m%d-%H%M%S") + f"-{os.getpid()}-{next(_counter)}"
    path = runs / name
    path.mkdir()
    return path


def new_socket_dir():
    """A directory with a short path: a socket's path has at most 107 bytes."""
    base = tempfile.gettempdir()
    return pathlib.Path(tempfile.mkdtemp(prefix="u4r-", dir=base if len(base) < 60 else "/tmp"))
