# SPDX-License-Identifier: GPL-2.0
"""Child processes that cannot outlive the lab, however it ends."""

import atexit
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
SLOT_TAKEN = "U4R_SLOT_TAKEN"
_children = []
_slots = []
_libc = ctypes.CDLL(None, use_errno=True)


def _tie_to_parent(parent):
    """Between fork and exec: asks the kernel to kill us when the parent dies."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call
        os._exit(1)


def spawn(argv, log, **options):
    """Starts a child in a process group of its own, with its output in `log`.

    Call it from a thread that lives as long as the child should: the kernel
    kills the child when the thread that started it ends.
    """
    parent = os.getpid()
    with open(log, "ab") as output:
        child = subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=lambda: _tie_to_parent(parent), **options)
    _children.append(child)
    return child


def take_slot(folder, waiting):
    """Takes one of as many slots as the machine has CPUs, for the rest of this process.

    A lab keeps two CPUs busy, so a third at once would only make all of them slow. A
    process takes one slot for all of its labs, and its children share it: whoever held
    one and waited for another could wait for ever. `waiting()` is called once if there
    is a wait.
    """
    if SLOT_TAKEN in os.environ:
        return
    told = False
    while SLOT_TAKEN not in os.environ:
        for number in range(max(1, os.cpu_count() or 1)):
            file = open(folder / f".slot-{number}", "w", encoding="ascii")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            _slots.append(file)
            os.environ[SLOT_TAKEN] = "1"
            return
        if not told:
            waiting()
            told = True
        time.sleep(0.5)


def stop(child, patience=5):
    """Ends a child: SIGTERM, then after `patience` seconds SIGKILL for its group."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            pass
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child in _children:
        _children.remove(child)


def _stop_all():
    for child in list(_children):
        stop(child, patience=1)


def exit_on_signals():
    """Makes SIGTERM and SIGHUP end the program as an exception would, so that
    `with` blocks and atexit handlers run."""
    def leave(number, _frame):
        sys.exit(128 + number)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)


atexit.register(_stop_all)
