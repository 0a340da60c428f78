# SPDX-License-Identifier: GPL-2.0
"""What the tests in the guests share.

`lab` is a lab with the default profile that a module's tests share. A module that
wants another one says so: `LAB = dict(profile="amd", mode="sync")` at its top.
`driver` is the same with usb4_rdma loaded and its port active on both hosts.
After every test both kernels' logs are searched for WARN, BUG and the like.
"""

import pytest

from lab import Lab
from lab.lab import driver_built


@pytest.fixture(scope="module")
def lab(request):
    """A running lab for the tests of one module."""
    with Lab(**getattr(request.module, "LAB", {})) as running:
        yield running


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
