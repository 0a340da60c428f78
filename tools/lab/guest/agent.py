# SPDX-License-Identifier: GPL-2.0
"""The guest's end of the lab: runs commands that arrive over a virtio port.

One JSON object a line in both directions. Requests:

  {"id": N, "op": "run", "argv": [...], "timeout": seconds or null, "cwd": path, "env": {...}}
  {"id": N, "op": "signal", "sig": 15}      to the process group of run N
  {"id": N, "op": "stdin", "data": base64}  empty data closes it
  {"id": N, "op": "ping"}

Answers: {"id": N, "ev": "started", "pid": P}, {"id": N, "ev": "out" or "err", "data": base64},
{"id": N, "ev": "exit", "rc": code (negative: signal), "timeout": bool, "seconds": wall},
{"id": N, "ev": "error", "text": ...}, {"id": N, "ev": "pong"}.
"""

import base64
import glob
import json
import os
import selectors
import signal
import subprocess
import time

PORT_NAME = "u4r.agent"
CHUNK = 65536
# After its main process has gone a command's output is read this long (s):
# a child that it left behind may hold the pipe open for ever.
LINGER = 0.5
# The agent has to answer however busy the guest is: it is the lab's grip on it.
AGENT_NICE = -15


def find_port():
    """Path of the virtio port that belongs to the agent; waits for it."""
    while True:
        for name in glob.glob("/sys/class/virtio-ports/*/name"):
            with open(name) as file:
                if file.read().strip() == PORT_NAME:
                    return "/dev/" + name.split("/")[-2]
        time.sleep(0.05)


class Job:
    """One command and its pipes."""

    def __init__(self, agent, request):
        self.id = request["id"]
        self.started = time.monotonic()
        timeout = request.get("timeout")
        self.deadline = self.started + timeout if timeout else None
        self.timed_out = False
        self.ended = None
        env = dict(os.environ, **request.get("env", {}))
        self.process = subprocess.Popen(
            request["argv"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=request.get("cwd", "/root"), env=env,
            start_new_session=True, preexec_fn=lambda: os.nice(-AGENT_NICE))
        self.pidfd = os.pidfd_open(self.process.pid)
        agent.selector.register(self.pidfd, selectors.EVENT_READ, self)
        self.open = {self.process.stdout: "out", self.process.stderr: "err"}
        for pipe in self.open:
            os.set_blocking(pipe.fileno(), False)
            agent.selector.register(pipe, selectors.EVENT_READ, self)

    def signal(self, number):
        """Sends a signal to the command and everything it started."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


class Agent:
    """Multiplexes any number of commands over one port."""

    def __init__(self, path):
        self.port = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.port, selectors.EVENT_READ, None)
        self.jobs = {}
        self.input = b""

    def send(self, **message):
        """Writes one line; blocks while the host does not read."""
        data = json.dumps(message).encode() + b"\n"
        while data:
            try:
                data = data[os.write(self.port, data):]
            except BlockingIOError:
                time.sleep(0.002)

    def handle(self, line):
        """Carries out one request."""
        request = json.loads(line)
        job = self.jobs.get(request["id"])
        op = request["op"]
        if op == "ping":
            self.send(id=request["id"], ev="pong")
        elif op == "run":
            try:
                job = Job(self, request)
            except OSError as error:
                self.send(id=request["id"], ev="error", text=str(error))
                return
            self.jobs[job.id] = job
            self.send(id=job.id, ev="started", pid=job.process.pid)
        elif op == "signal" and job:
            job.signal(request["sig"])
        elif op == "stdin" and job:
            data = base64.b64decode(request["data"])
            try:
                job.process.stdin.write(data)
                job.process.stdin.flush()
                if not data:
                    job.process.stdin.close()
            except (OSError, ValueError):
                pass

    def read_port(self):
        """Takes in what the host sent."""
        try:
            data = os.read(self.port, CHUNK)
        except BlockingIOError:
            return
        if not data:  # the host is not connected just now
            time.sleep(0.05)
            return
        *lines, self.input = (self.input + data).split(b"\n")
        for line in lines:
            if line.strip():
                self.handle(line)

    def read_pipe(self, pipe, job):
        """Passes on what a command wrote."""
        try:
            data = os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            return
        if data:
            self.send(id=job.id, ev=job.open[pipe], data=base64.b64encode(data).decode())
        else:
            self.close_pipe(pipe, job)

    def close_pipe(self, pipe, job):
        """Forgets a pipe of a command."""
        self.selector.unregister(pipe)
        del job.open[pipe]
        pipe.close()

    def check(self, job, now):
        """Applies the time-out, and reports a command that has ended."""
        if job.deadline and now > job.deadline and not job.timed_out:
            job.timed_out = True
            job.deadline = None
            job.signal(signal.SIGKILL)
        if job.process.poll() is None:
            return
        if job.ended is None:
            job.ended = now
            self.selector.unregister(job.pidfd)
            os.close(job.pidfd)
        if job.open and now - job.ended < LINGER:
            return
        for pipe in list(job.open):
            self.read_pipe(pipe, job)
            if pipe in job.open:
                self.close_pipe(pipe, job)
        del self.jobs[job.id]
        self.send(id=job.id, ev="exit", rc=job.process.returncode,
                  timeout=job.timed_out, seconds=job.ended - job.started)

    def patience(self):
        """Seconds until some command's time-out or linger is due, or None."""
        due = [job.ended + LINGER if job.ended else job.deadline for job in self.jobs.values()]
        due = [moment for moment in due if moment is not None]
        return max(0, min(due) - time.monotonic()) + 0.001 if due else None

    def run(self):
        """Serves for ever."""
        while True:
            for key, _ in self.selector.select(self.patience()):
                if key.data is None:
                    self.read_port()
                elif key.fileobj != key.data.pidfd:
                    self.read_pipe(key.fileobj, key.data)
            now = time.monotonic()
            for job in list(self.jobs.values()):
                self.check(job, now)


if __name__ == "__main__":
    os.nice(AGENT_NICE)
    Agent(find_port()).run()
