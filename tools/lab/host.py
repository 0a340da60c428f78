# SPDX-License-Identifier: GPL-2.0
"""One guest of the lab."""

import re
import socket
import time

from . import kernel_log, machine, places, procs
from .agent import Agent
from .places import LabError

# A guest under TCG on a loaded machine; alone it takes a fifth of this (s).
BOOT_PATIENCE = 180
# The first program of a guest prints a line within some five seconds, alone (s).
SILENCE = 60
DEFAULT_TIMEOUT = 60


class Host:
    """A guest: a stock kernel with the host router at one end of the cable.

    `name` is its host name, `logs` the directory on this machine which it sees
    as /logs (console.log in it is its serial console).
    """

    def __init__(self, name, sockets, logs, stage, options):
        self.name = name
        self.logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        self._agent_path = sockets / f"{name}.agent"
        self._monitor_path = sockets / f"{name}.monitor"
        argv = machine.command(name, sockets, logs, stage, options)
        self.process = procs.spawn(argv, logs / "qemu.log")
        self.agent = Agent(self._agent_path)

    @property
    def alive(self):
        """True while the virtual machine runs."""
        return self.process.poll() is None

    @property
    def console(self):
        """Text of the serial console so far."""
        path = self.logs / "console.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def registers(self):
        """The processors' registers from QEMU's monitor; why not, if there is none."""
        try:
            with socket.socket(socket.AF_UNIX) as monitor:
                monitor.settimeout(5)
                monitor.connect(str(self._monitor_path))
                monitor.sendall(b"info registers -a\n")
                time.sleep(1)
                return monitor.recv(1 << 20).decode(errors="replace")
        except OSError as error:
            return f"no registers: {error}\n"

    def wait_up(self):
        """Waits until the guest answers; one that prints nothing for long is not waited for."""
        # A kernel with KASAN takes its time.
        slower = 5 if places.debug() else 1
        until = time.monotonic() + SILENCE * slower
        try:
            self.agent.connect(
                lambda: self.alive and (time.monotonic() < until or bool(self.console.strip())),
                BOOT_PATIENCE * slower)
        except LabError as error:
            (self.logs / "registers.log").write_text(self.registers())
            log = (self.logs / "qemu.log").read_text(errors="replace")
            raise LabError(f"host {self.name}: {error}\n{log}{self.console[-3000:]}") from error

    def run(self, command, timeout=DEFAULT_TIMEOUT, check=False, env=None, cwd="/root"):
        """Runs a command (a string for the shell, or a list of words) to its end.

        Returns a Result; after `timeout` seconds the command and its children are
        killed. With `check` anything but exit code 0 raises LabError.
        """
        result = self.agent.start(command, timeout, env, cwd).wait()
        if check and not result.ok:
            raise LabError(f"host {self.name}: {result}")
        return result

    def start(self, command, timeout=None, env=None, cwd="/root", on_output=None):
        """Starts a command in the background and returns a Job.

        `on_output(stream, text)` is called as output comes, stream being out or err.
        """
        return self.agent.start(command, timeout, env, cwd, on_output)

    def read(self, path):
        """Contents of a file in the guest, without trailing white space."""
        return self.run(["cat", path], check=True).out.rstrip()

    def write(self, path, text):
        """Writes a file in the guest (sysfs attributes included)."""
        self.run(["sh", "-c", 'printf %s "$1" >"$2"', "sh", text, path], check=True)

    def wait_until(self, command, timeout=30, period=0.2):
        """Runs a shell command in the guest again and again until it succeeds.

        The loop is the guest's own, so that waiting costs little. Raises LabError
        after `timeout` seconds.
        """
        loop = f"until {command}; do sleep {period}; done"
        result = self.run(loop, timeout=timeout)
        if not result.ok:
            raise LabError(f"host {self.name}: not within {timeout} s: {command}\n{result}")

    def dmesg(self):
        """The kernel's log."""
        return self.run(["dmesg"], check=True).out

    def kernel_faults(self):
        """What the kernel reported of WARN, BUG, oops and the like, as a list of passages.

        Works with a dead guest too: the console shows every message.
        """
        try:
            text = self.dmesg() if self.alive else self.console
        except LabError:
            text = self.console
        return kernel_log.faults(text)

    def cpu_busy(self):
        """Processor seconds that the guest's CPUs have not been idle since boot."""
        fields = [int(word) for word in self.read("/proc/stat").split("\n")[0].split()[1:]]
        hertz = 100
        idle = fields[3] + fields[4]
        return (sum(fields[:8]) - idle) / hertz

    def counter(self, name, device="usb4_rdma0", port=1):
        """A hardware counter of an RDMA device's port, by its name in sysfs."""
        return int(self.read(f"/sys/class/infiniband/{device}/ports/{port}/hw_counters/{name}"))

    def netdev(self):
        """Name of the thunderbolt-net interface, or None while there is none."""
        found = re.search(r"^\d+: (thunderbolt\d+|tb\d+)[:@]",
                          self.run(["ip", "-o", "link"]).out, re.MULTILINE)
        return found.group(1) if found else None

    def stop(self):
        """Ends the virtual machine at once."""
        procs.stop(self.process, patience=2)
