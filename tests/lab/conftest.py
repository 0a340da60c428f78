# SPDX-License-Identifier: GPL-2.0
"""What the tests in the guests share.

`lab` is a running lab with the default options. A module that wants others says so at
its top: `LAB = dict(profile="amd", mode="sync")`. Booting takes longest of all, so
modules with the same options share one lab, as long as it is in good health; a module
that leaves traces sets `PRIVATE = True`. `driver` is the same with usb4_rdma loaded
and its port active on both hosts; `driver.addresses` maps host to address.

After every test both kernels' logs are searched for WARN, BUG and the like.
"""

import json
import signal

import pytest

from lab import Lab
from lab.lab import driver_built


def pytest_configure():
    """A signal ends the run: the lab's own way, an exception, would fail one test only."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: pytest.exit(f"signal {number}"))


class Pool:
    """The lab that runs just now, if any."""

    def __init__(self):
        self.key = None
        self.lab = None

    def get(self, options, private):
        """The lab for these options: the present one if it fits, else a new one."""
        key = json.dumps(options, sort_keys=True)
        if key != self.key or private or not self.healthy():
            self.drop()
            self.lab = Lab(**options).up()
            self.key = None if private else key
        return self.lab

    def healthy(self):
        """True if both guests live and neither kernel has complained."""
        return all(host.alive for host in self.lab.hosts.values()) and \
            not self.lab.kernel_faults()

    def drop(self):
        """Ends the present lab."""
        if self.lab:
            self.lab.down()
        self.lab = self.key = None


@pytest.fixture(scope="session")
def pool():
    """The session's labs: one at a time."""
    labs = Pool()
    yield labs
    labs.drop()


@pytest.fixture(scope="module")
def lab(request, pool):
    """A running lab for the tests of one module."""
    return pool.get(getattr(request.module, "LAB", {}),
                    getattr(request.module, "PRIVATE", False))


@pytest.fixture(scope="module")
def driver(lab):
    """The module's lab, with the driver loaded and addresses set."""
    assert driver_built(), "no driver was built"
    lab.wait_discovery()
    lab.addresses = lab.load_driver()
    return lab


@pytest.fixture(autouse=True)
def quiet_kernels(request):
    """Fails a test after which a kernel's log holds a fault that was not there before."""
    if not {"lab", "driver"} & set(request.fixturenames):
        yield
        return
    running = request.getfixturevalue("lab")
    before = set(running.kernel_faults())
    yield
    dead = [name for name, host in running.hosts.items() if not host.alive]
    assert not dead, f"dead guests: {dead}, logs in {running.logs}"
    new = [fault for fault in running.kernel_faults() if fault not in before]
    assert not new, "\n\n".join(new) + f"\nlogs: {running.logs}"
