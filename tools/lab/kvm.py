# SPDX-License-Identifier: GPL-2.0
"""Finds out whether KVM works here, and remembers it.

A /dev/kvm exists in the field that opens but never gets a stock kernel past
its decompressor. So it is tried with the kernel that will be used.
"""

import hashlib
import os
import pathlib
import subprocess
import tempfile
import time

from . import places, procs

# The trial boot must have printed something within this many seconds.
PATIENCE = 15


def accelerator():
    """`kvm` or `tcg`; U4R_ACCEL overrides."""
    if os.environ.get("U4R_ACCEL"):
        return os.environ["U4R_ACCEL"]
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text()
    key = hashlib.sha256((boot + places.kernel().name).encode()).hexdigest()[:12]
    verdict = places.CACHE / f"kvm-{key}"
    if not verdict.exists():
        verdict.write_text("kvm" if _works() else "tcg")
        places.say(f"/dev/kvm tried: using {verdict.read_text()}")
    return verdict.read_text()


def _works():
    """Boots the stock kernel without a disk; it works if its first line comes out."""
    with tempfile.TemporaryDirectory() as scratch:
        console = pathlib.Path(scratch) / "console"
        console.touch()
        child = procs.spawn(
            ["qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-machine", "q35",
             "-m", "256M", "-nodefaults", "-display", "none", "-no-reboot",
             "-kernel", places.kernel() / "vmlinuz",
             "-append", "earlyprintk=ttyS0 console=ttyS0 panic=-1",
             "-serial", f"file:{console}"], pathlib.Path(scratch) / "log")
        try:
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                if b"Linux version" in console.read_bytes():
                    return True
                try:
                    child.wait(0.1)
                    return b"Linux version" in console.read_bytes()
                except subprocess.TimeoutExpired:
                    if b"KVM internal error" in (pathlib.Path(scratch) / "log").read_bytes():
                        return False
            return False
        finally:
            procs.stop(child)
