# SPDX-License-Identifier: GPL-2.0
"""Builds what the lab runs, and stages it for the guests.

The stage is a directory of the cache, named after the content of everything that
went into it, so a warm run costs one walk over the sources. Both guests see it as
/u4r. A part that this checkout does not have is left out:

  vcable            the cable (used on the host only)
  usb4_rdma.ko      the driver
  provider/         its rdma-core provider
  bin/              the guest's test programs
  guest-hook        installs the above in a guest
"""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess

from . import places
from .places import TOP, LabError, say

# Directories and files that decide what is built.
INPUTS = ["tools/vcable", "drivers", "provider", "tests/programs", "Kbuild", "scripts/kernel-pin",
          "tools/lab/guest-hook"]
# Build products that a hand-made build may have left in the checkout.
IGNORED_DIRS = {"target", "build", "__pycache__", ".git"}
IGNORED_ENDS = (".o", ".ko", ".cmd", ".mod", ".mod.c", ".rmeta", ".so", ".order", ".symvers",
                "bindings_generated.rs", ".orig", ".swp")


def _files():
    for name in INPUTS:
        path = TOP / name
        if path.is_file():
            yield path
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(set(folders) - IGNORED_DIRS)
            for file in sorted(files):
                if not file.endswith(IGNORED_ENDS):
                    yield places.pathlib.Path(folder) / file


def _skipped():
    """Parts that the developer wants left out: U4R_SKIP=module,provider."""
    return os.environ.get("U4R_SKIP", "").split(",")


def _key():
    digest = hashlib.sha256(f"{places.kernel().name} {_skipped()}".encode())
    for path in _files():
        digest.update(f"{path.relative_to(TOP)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _run(what, argv, **environment):
    """Runs one build step with its output in a log; shows the log's end if it fails."""
    say(f"building {what}")
    log = places.build_dir() / f"{what.replace(' ', '-')}.log"
    with open(log, "w", encoding="utf-8") as output:
        done = subprocess.run([str(word) for word in argv], cwd=TOP, stdout=output,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, **environment))
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
        raise LabError(f"building {what} failed, see {log}\n{tail}")


def _build_vcable(into):
    target = places.build_dir() / "vcable"
    _run("vcable", ["cargo", "build", "--release", "--locked",
                    "--manifest-path", TOP / "tools/vcable/Cargo.toml"],
         CARGO_TARGET_DIR=str(target))
    shutil.copy2(target / "release/vcable", into / "vcable")


def module(kdir=None):
    """Builds the driver against `kdir` (default: the lab's kernel); the .ko's path.

    Object files stay out of the checkout (kbuild's MO=).
    """
    objects = places.build_dir() / "module"
    objects.mkdir(exist_ok=True)
    # A kernel with KASAN has to be clang's, and so have its modules.
    llvm = ["LLVM=1"] if (places.kernel() / "llvm").exists() else []
    _run("module", ["make", "-C", kdir or places.kernel() / "src", f"M={TOP}",
                    f"MO={objects}", f"-j{os.cpu_count()}", *llvm, "modules"])
    return objects / "drivers/usb4_rdma/usb4_rdma.ko"


def _build_module(into):
    shutil.copy2(module(), into / "usb4_rdma.ko")


def _build_provider(into):
    objects = places.build_dir() / "provider"
    _run("provider", ["make", "-C", "provider", f"O={objects}"])
    (into / "provider").mkdir()
    for path in [*objects.glob("*.so"), *(TOP / "provider").glob("*.driver")]:
        shutil.copy2(path, into / "provider")


def _build_programs(into):
    objects = places.build_dir() / "programs"
    _run("test programs", ["make", "-C", "tests/programs", f"O={objects}"])
    (into / "bin").mkdir()
    for path in objects.iterdir():
        if path.is_file() and os.access(path, os.X_OK) and not path.suffix == ".so":
            shutil.copy2(path, into / "bin")


# Name of each part, the file that shows that this checkout has it, and its build.
PARTS = [("vcable", "tools/vcable/src/main.rs", _build_vcable),
         ("module", "Kbuild", _build_module),
         ("provider", "provider/Makefile", _build_provider),
         ("programs", "tests/programs/Makefile", _build_programs)]


@functools.cache
def stage():
    """Directory with everything built from this checkout's present content."""
    path = places.CACHE / f"stage-{_key()}"
    if path.exists():
        os.utime(path)
        return path
    with open(places.build_dir() / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _make(path)
    _drop_old_stages()
    return path


def _make(path):
    new = path.with_name(f"{path.name}.new-{os.getpid()}")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    shutil.copy2(TOP / "tools/lab/guest-hook", new)
    for name, marker, build in PARTS:
        if name in _skipped():
            say(f"{name} left out, as U4R_SKIP says")
        elif (TOP / marker).exists():
            build(new)
        else:
            say(f"no {marker} in this checkout: left out")
    try:
        new.rename(path)
    except OSError:
        # Another copy of the tree with the same content was faster: its stage is as good.
        if not path.is_dir():
            raise
        shutil.rmtree(new, ignore_errors=True)


def _drop_old_stages(keep=8):
    stages = sorted(places.CACHE.glob("stage-*"), key=lambda path: path.stat().st_mtime)
    for path in stages[:-keep]:
        shutil.rmtree(path, ignore_errors=True)


def vcable(staged):
    """Path of the vcable program in a stage."""
    program = staged / "vcable"
    if not program.exists():
        raise LabError("this checkout has no vcable to build")
    return program


def main():
    """`make prepare`: builds everything and tells where it lies."""
    try:
        print(stage())
    except LabError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
