# SPDX-License-Identifier: GPL-2.0
"""The host's end of the guest agent (guest/agent.py describes the protocol)."""

import base64
import dataclasses
import itertools
import json
import re
import shlex
import socket
import threading
import time

from .places import LabError


@dataclasses.dataclass
class Result:
    """How a command in a guest ended.

    `rc` is its exit code (negative: the signal that ended it), `seconds` its
    wall time in the guest; `timed_out` says that it was killed for taking too long.
    """
    command: str
    rc: int
    out: str
    err: str
    seconds: float
    timed_out: bool = False

    @property
    def ok(self):
        """True for exit code 0 within the time-out."""
        return self.rc == 0 and not self.timed_out

    def __str__(self):
        how = "timed out" if self.timed_out else f"rc {self.rc}"
        return (f"$ {self.command}\n[{how} after {self.seconds:.1f} s]\n"
                f"{self.out}{'--- stderr ---' if self.err else ''}\n{self.err}")


class Job:
    """A command that runs in a guest."""

    def __init__(self, agent, number, command, timeout, on_output):
        self.agent = agent
        self.id = number
        self.command = command
        self.timeout = timeout
        self.pid = None
        self._on_output = on_output
        self._parts = {"out": [], "err": []}
        self._changed = threading.Condition()
        self._exit = None
        self._broken = None

    def feed(self, message):
        """Takes in one message of the agent."""
        with self._changed:
            event = message["ev"]
            if event in self._parts:
                text = base64.b64decode(message["data"]).decode(errors="replace")
                self._parts[event].append(text)
                if self._on_output:
                    self._on_output(event, text)
            elif event == "started":
                self.pid = message["pid"]
            elif event in ("exit", "pong"):
                self._exit = message
            elif event == "error":
                self._broken = message["text"]
            self._changed.notify_all()

    def _text(self, which):
        return "".join(self._parts[which])

    @property
    def out(self):
        """Standard output so far."""
        with self._changed:
            return self._text("out")

    @property
    def running(self):
        """True until the command has ended."""
        with self._changed:
            return self._exit is None and self._broken is None

    def wait_for(self, pattern, timeout=30):
        """Waits until the output (both streams) matches a regular expression."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                found = re.search(pattern, self._text("out") + self._text("err"))
                if found:
                    return found
                left = deadline - time.monotonic()
                if left <= 0 or self._exit or self._broken:
                    raise LabError(f"{self.command}: no {pattern!r} in\n"
                                   f"{self._text('out')}{self._text('err')}")
                self._changed.wait(left)

    def signal(self, number):
        """Sends a signal to the command's process group."""
        self.agent.send(id=self.id, op="signal", sig=int(number))

    def kill(self):
        """Kills the command and waits for its end."""
        self.signal(9)
        return self.wait(20)

    def write(self, data):
        """Writes to the command's standard input; empty bytes close it."""
        self.agent.send(id=self.id, op="stdin", data=base64.b64encode(data).decode())

    def wait(self, timeout=None):
        """Waits for the end and returns a Result.

        Raises LabError when the guest itself does not answer: its own time-out
        plus a margin for a loaded machine has passed.
        """
        if timeout is None:
            timeout = self.timeout + 60 if self.timeout else None
        with self._changed:
            if not self._changed.wait_for(lambda: self._exit or self._broken, timeout):
                raise LabError(f"guest does not answer: {self.command}")
            if self._broken:
                raise LabError(f"{self.command}: {self._broken}")
            return Result(self.command, self._exit.get("rc", 0), self._text("out"),
                          self._text("err"), self._exit.get("seconds", 0.0),
                          self._exit.get("timeout", False))


class Agent:
    """A connection to one guest's agent. Safe to use from several threads."""

    def __init__(self, path):
        self._path = str(path)
        self._socket = None
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._jobs = {}

    def connect(self, alive, timeout):
        """Waits until the guest answers. `alive()` tells whether that can still happen."""
        deadline = time.monotonic() + timeout
        while self._socket is None:
            if not alive() or time.monotonic() > deadline:
                raise LabError("the guest's agent port did not appear")
            candidate = socket.socket(socket.AF_UNIX)
            try:
                candidate.connect(self._path)
                self._socket = candidate
            except OSError:
                candidate.close()
                time.sleep(0.05)
        threading.Thread(target=self._read, daemon=True).start()
        ping = self._job("ping", None, None)
        self.send(id=ping.id, op="ping")
        while ping.running:
            if not alive() or time.monotonic() > deadline:
                raise LabError("the guest did not come up")
            time.sleep(0.05)

    def _job(self, command, timeout, on_output):
        with self._lock:
            job = Job(self, next(self._numbers), command, timeout, on_output)
            self._jobs[job.id] = job
        return job

    def start(self, command, timeout=None, env=None, cwd="/root", on_output=None):
        """Starts a command: a string for the shell, or a list of words."""
        if isinstance(command, str):
            argv, text = ["/bin/sh", "-c", command], command
        else:
            argv, text = [str(word) for word in command], shlex.join(map(str, command))
        job = self._job(text, timeout, on_output)
        self.send(id=job.id, op="run", argv=argv, timeout=timeout, env=env or {}, cwd=cwd)
        return job

    def send(self, **message):
        """Sends one request."""
        data = json.dumps(message).encode() + b"\n"
        with self._lock:
            try:
                self._socket.sendall(data)
            except OSError as error:
                raise LabError(f"guest is gone: {error}") from error

    def _read(self):
        try:
            for line in self._socket.makefile("rb"):
                self._dispatch(json.loads(line))
        except (OSError, ValueError) as error:
            reason = str(error)
        else:
            reason = "the guest is gone"
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.feed({"ev": "error", "text": reason})

    def _dispatch(self, message):
        with self._lock:
            job = self._jobs.get(message["id"])
            if message["ev"] in ("exit", "error", "pong"):
                self._jobs.pop(message["id"], None)
        if job:
            job.feed(message)
