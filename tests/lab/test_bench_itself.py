# SPDX-License-Identifier: GPL-2.0
"""The lab itself: commands in guests, and that no guest outlives its lab."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from lab import Host, Lab, LabError
from lab.kernel_log import faults

TOP = pathlib.Path(__file__).resolve().parents[2]
LAB = {"cable": False, "ethernet": True}


def test_guests_are_stock_kernels(lab):
    for host in lab.hosts.values():
        version = host.run("uname -v", check=True).out
        assert "Debian" in version
        assert host.run("uname -n").out.strip() == host.name


def test_exit_code_and_both_streams(lab):
    result = lab.a.run("echo out; echo err >&2; exit 7")
    assert (result.rc, result.out, result.err) == (7, "out\n", "err\n")
    assert not result.ok


def test_a_long_output_arrives_whole(lab):
    result = lab.a.run("seq 1 100000", check=True)
    assert result.out == "".join(f"{n}\n" for n in range(1, 100001))


def test_time_out_kills_children_too(lab):
    result = lab.a.run("sleep 1000 & sleep 1000", timeout=1)
    assert result.timed_out and result.rc == -signal.SIGKILL
    assert lab.a.run("pgrep -x sleep").rc == 1


def test_jobs_run_beside_each_other(lab):
    job = lab.b.start("cat; echo ended")
    assert lab.b.run("echo other", check=True).out == "other\n"
    job.write(b"hello\n")
    job.wait_for("hello")
    assert job.running
    job.write(b"")
    assert job.wait(20).out == "hello\nended\n"


def test_agent_answers_under_load(lab):
    load = lab.a.start("for i in 1 2 3 4 5 6; do (while :; do :; done) & done; wait")
    time.sleep(2)
    assert lab.a.run("echo still here", timeout=30).out == "still here\n"
    load.kill()


def test_guests_see_each_other_over_ethernet(lab):
    lab.a.run("ip address add 10.98.0.1/24 dev eth0 && ip link set eth0 up", check=True)
    lab.b.run("ip address add 10.98.0.2/24 dev eth0 && ip link set eth0 up", check=True)
    lab.a.wait_until("ping -c1 -W1 10.98.0.2 >/dev/null", 30)


def test_check_raises(lab):
    with pytest.raises(LabError, match="rc 3"):
        lab.a.run("exit 3", check=True)


def test_faults_in_a_log_are_found(lab):
    assert lab.kernel_faults() == []
    text = "[1.0] fine\n[2.0] WARNING: CPU: 0 PID: 1 at x.c:1\n[2.1] Call Trace:\n[2.2] more"
    assert len(faults(text)) == 1
    assert faults("[1.0] usb4_rdma: a debugging message") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_guest_outlives_its_lab(number, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent("""
        import time
        from lab import Host, Lab

        def report_instead_of_waiting(host):
            pids.append(str(host.process.pid))
            if len(pids) == 2:
                print(" ".join(pids), flush=True)
            time.sleep(600)

        pids = []
        Host.wait_up = report_instead_of_waiting
        with Lab(cable=False):
            pass
    """))
    child = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True,
                             env=dict(os.environ, PYTHONPATH=str(TOP / "tools")))
    pids = [int(word) for word in child.stdout.readline().split()]
    assert len(pids) == 2
    child.send_signal(number)
    child.wait(30)
    deadline = time.monotonic() + 10
    while any(map(_lives, pids)):
        assert time.monotonic() < deadline, "a guest outlived its lab"
        time.sleep(0.05)


def test_down_twice_is_harmless(monkeypatch):
    monkeypatch.setattr(Host, "wait_up", lambda host: None)
    lab = Lab(cable=False)
    lab.up()
    lab.down()
    lab.down()
    assert not any(host.alive for host in lab.hosts.values())


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
