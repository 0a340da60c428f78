# SPDX-License-Identifier: GPL-2.0
"""The lab for daily work: lab-up, lab-run, lab-shell, cable, lab-down."""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

from . import build, places, supervisor
from .places import LabError, say

UP_PATIENCE = 300


def _pid():
    """Process id of the supervisor, or None while there is none."""
    try:
        pid = int((supervisor.state_dir() / "pid").read_text())
        command = open(f"/proc/{pid}/cmdline", "rb").read()
    except (OSError, ValueError):
        return None
    return pid if b"lab.supervisor" in command else None


def _connect():
    if not _pid():
        raise LabError("no lab is up: make lab-up")
    link = socket.socket(socket.AF_UNIX)
    link.connect(str(supervisor.state_dir() / "ctl"))
    return link.makefile("rwb")


def _ask(**request):
    stream = _connect()
    stream.write(json.dumps(request).encode() + b"\n")
    stream.flush()
    for line in stream:
        yield json.loads(line)


def _reply(**request):
    answer = next(_ask(**request), {"error": "the lab is gone"})
    if "error" in answer:
        raise LabError(answer["error"])
    return answer["reply"]


def up(args):
    """Starts the lab in the background and waits until it is ready."""
    if _pid():
        say("the lab is up already")
        return 0
    build.stage()
    options = {"mode": args.mode, "cable": not args.no_cable, "background": True}
    options["profile"] = json.loads(args.profile) if "{" in args.profile else args.profile
    log_path = supervisor.state_dir() / "log"
    with open(log_path, "w", encoding="utf-8") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "lab.supervisor", json.dumps(options)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    (supervisor.state_dir() / "pid").write_text(str(child.pid))
    deadline, shown = time.monotonic() + UP_PATIENCE, 0
    while time.monotonic() < deadline:
        text = log_path.read_text()
        sys.stderr.write(text[shown:].replace("ready\n", ""))
        shown = len(text)
        if re.search("^ready$", text, re.MULTILINE):
            say("lab up: make lab-run HOST=a CMD='...', make lab-shell HOST=a, make lab-down")
            return 0
        if child.poll() is not None:
            return 1
        time.sleep(0.1)
    os.kill(child.pid, signal.SIGTERM)
    raise LabError(f"the lab did not come up within {UP_PATIENCE} s, see {log_path}")


def run(args):
    """Runs a command in a guest; its exit code is ours."""
    for answer in _ask(op="run", host=args.host, command=args.command, timeout=args.timeout):
        if "stream" in answer:
            where = sys.stdout if answer["stream"] == "out" else sys.stderr
            where.write(answer["text"])
            where.flush()
        elif "rc" in answer:
            return answer["rc"] if answer["rc"] >= 0 else 128 - answer["rc"]
        else:
            raise LabError(answer["error"])
    raise LabError("the lab is gone")


def shell(args):
    """Reads commands and runs each in the guest, until end of file."""
    folder = "/root"
    while True:
        try:
            line = input(f"{args.host}:{folder}# ")
        except EOFError:
            print()
            return 0
        if line.strip() in ("exit", "logout"):
            return 0
        # The working directory is carried from one command to the next.
        args.command = f"cd {folder} && {{ {line}\n}}; rc=$?; pwd >/run/lab-shell; exit $rc"
        args.timeout = None
        if line.strip():
            run(args)
            answers = _ask(op="run", host=args.host, command="cat /run/lab-shell", timeout=10)
            folder = next((a["text"].strip() for a in answers if a.get("stream") == "out"), folder)


def cable(args):
    """Sends a request to the cable: plug, unplug, counters, or a JSON object."""
    text = args.request
    request = json.loads(text) if text.startswith("{") else {"cmd": text}
    if request["cmd"] in ("plug", "unplug", "link"):
        request.setdefault("cable", "c0")
    print(json.dumps(_reply(op="cable", request=request), indent=2))
    return 0


def down(_args):
    """Ends the lab."""
    pid = _pid()
    if not pid:
        say("no lab is up")
        return 0
    os.kill(pid, signal.SIGTERM)
    for _ in range(200):
        if not _pid():
            break
        time.sleep(0.05)
    else:
        os.kill(pid, signal.SIGKILL)
    (supervisor.state_dir() / "pid").unlink(missing_ok=True)
    say("lab down")
    return 0


def main():
    """Command line of `make lab-*` and `make cable`."""
    parser = argparse.ArgumentParser(prog="lab")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("up", help="boot two guests")
    command.add_argument("--profile", default="tb4", help="amd, tb4, tb5, or {\"a\": .., \"b\": ..}")
    command.add_argument("--mode", default="sparse", choices=["sparse", "sync"])
    command.add_argument("--no-cable", action="store_true")
    command.set_defaults(action=up)
    command = commands.add_parser("run", help="run a command in a guest")
    command.add_argument("host")
    command.add_argument("command")
    command.add_argument("--timeout", type=float)
    command.set_defaults(action=run)
    command = commands.add_parser("shell", help="commands in a guest, one after the other")
    command.add_argument("host")
    command.set_defaults(action=shell)
    command = commands.add_parser("cable", help="plug, unplug, counters, or a JSON request")
    command.add_argument("request")
    command.set_defaults(action=cable)
    command = commands.add_parser("down", help="end the guests")
    command.set_defaults(action=down)
    args = parser.parse_args()
    try:
        return args.action(args)
    except LabError as error:
        say(f"error: {error}")
        return 1


if __name__ == "__main__":
    places.CACHE.mkdir(parents=True, exist_ok=True)
    sys.exit(main())
