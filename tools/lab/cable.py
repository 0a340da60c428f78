# SPDX-License-Identifier: GPL-2.0
"""The vcable process, which is the host routers and the cables, and its control socket."""

import json
import socket
import time

from . import procs
from .places import LabError

# Starting is a matter of milliseconds; a loaded machine may take a while.
START_PATIENCE = 20
REPLY_PATIENCE = 20


class Cable:
    """One vcable process.

    `hosts` maps names to profiles (amd, tb4, tb5); `cables` is a list of dicts
    as on vcable's command line: name, a, b, and rate_mbps, latency_us, plugged
    where they differ from the profile's.
    """

    def __init__(self, program, sockets, logs, hosts, cables, mode):
        self.control = sockets / "cable.ctl"
        self.sockets = {name: sockets / f"{name}.nhi" for name in hosts}
        argv = [program, "--control", self.control, "--log", logs / "vcable.log"]
        for name, profile in hosts.items():
            argv += ["--host", f"name={name},profile={profile},"
                               f"socket={self.sockets[name]},mode={mode}"]
        for cable in cables:
            words = ",".join(f"{key}={_word(value)}" for key, value in cable.items()
                             if value is not None)
            argv += ["--cable", words]
        self.process = procs.spawn(argv, logs / "vcable.out")
        self._log = logs / "vcable.out"
        self._connection = None
        self._connect([self.control, *self.sockets.values()])

    def _connect(self, paths):
        deadline = time.monotonic() + START_PATIENCE
        while not all(path.exists() for path in paths):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise LabError(f"vcable did not start:\n{self._log.read_text()}")
            time.sleep(0.02)
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(REPLY_PATIENCE)
        self._connection.connect(str(self.control))
        self._lines = self._connection.makefile("rwb")

    def ask(self, request):
        """Sends one request (a dict) and returns the reply; LabError if it is refused."""
        if self.process.poll() is not None:
            raise LabError(f"vcable is gone (code {self.process.returncode}), see {self._log}")
        self._lines.write(json.dumps(request).encode() + b"\n")
        self._lines.flush()
        line = self._lines.readline()
        reply = json.loads(line) if line else {"error": "connection closed"}
        if not reply.get("ok"):
            raise LabError(f"vcable refuses {request}: {reply.get('error')}")
        return reply

    def cpu_seconds(self):
        """Processor time that vcable has used so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def stop(self):
        """Ends the process."""
        if self._connection:
            self._connection.close()
        procs.stop(self.process)


def _word(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
