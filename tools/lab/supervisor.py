# SPDX-License-Identifier: GPL-2.0
"""The process that owns the guests of `make lab-up` until `make lab-down`.

It serves a Unix socket, one JSON object a line each way:

  {"op": "run", "host": "a", "command": ..., "timeout": ...}   answered by
      {"stream": "out" or "err", "text": ...} any number of times, then {"rc": N}
  {"op": "cable", "request": {...}}    {"reply": {...}}
  {"op": "info"}                       {"reply": {"logs": ...}}
  {"op": "down"}                       {"reply": {}}, and everything ends
or {"error": text}.
"""

import json
import os
import signal
import socketserver
import sys
import threading

from . import places
from .lab import Lab
from .places import LabError


def state_dir():
    """Directory of the one lab that `lab-up` starts."""
    path = places.CACHE / "lab-up"
    path.mkdir(parents=True, exist_ok=True)
    return path


class _Handler(socketserver.StreamRequestHandler):
    def answer(self, **message):
        """Writes one line to the client."""
        self.wfile.write(json.dumps(message).encode() + b"\n")
        self.wfile.flush()

    def handle(self):
        """Serves one client until it hangs up."""
        for line in self.rfile:
            try:
                self.serve(json.loads(line))
            except LabError as error:
                self.answer(error=str(error))
            except BrokenPipeError:
                return

    def serve(self, request):
        """Carries out one request."""
        lab, op = self.server.lab, request["op"]
        if op == "run":
            self.run_command(lab, request)
        elif op == "cable":
            self.answer(reply=lab.cable(request["request"]))
        elif op == "info":
            self.answer(reply={"logs": str(lab.logs), "hosts": list(lab.hosts)})
        elif op == "down":
            self.server.ending = True
            self.answer(reply={})
            os.kill(os.getpid(), signal.SIGTERM)

    def run_command(self, lab, request):
        """Runs a command in a guest and passes its output on as it comes."""
        host = lab.hosts.get(request["host"])
        if not host:
            raise LabError(f"no host {request['host']}: there are {', '.join(lab.hosts)}")
        job = host.start(request["command"], request.get("timeout"),
                         on_output=lambda stream, text: self.answer(stream=stream, text=text))
        try:
            result = job.wait()
        except BrokenPipeError:
            job.kill()
            raise
        self.answer(rc=124 if result.timed_out else result.rc)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


def serve(lab, path):
    """Serves until SIGTERM."""
    path.unlink(missing_ok=True)
    with _Server(str(path), _Handler) as server:
        server.lab = lab
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print("ready", flush=True)
        try:
            signal.pause()
        finally:
            path.unlink(missing_ok=True)


def main():
    """Runs in the background; arguments as JSON for Lab on the command line."""
    options = json.loads(sys.argv[1])
    try:
        with Lab(**options) as lab:
            serve(lab, state_dir() / "ctl")
    except LabError as error:
        print(f"failed: {error}", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
