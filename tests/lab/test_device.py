# SPDX-License-Identifier: GPL-2.0
"""What the device says of itself, and the module's parameters."""

import pathlib
import re

import pytest

from pairs import DEVICE, SYSFS, gid_index

TOP = pathlib.Path(__file__).resolve().parents[2]
PARAMETERS = "/sys/module/usb4_rdma/parameters"
DESCRIPTION = re.compile(r"^(\w+):.*\((.+), (\d+)\.\.(\d+), default (\d+)\)", re.MULTILINE)
# enum ibv_port speed and width values that exist.
SPEEDS = {1, 2, 4, 8, 16, 32, 64, 128, 256}
WIDTHS = {1, 2, 4, 8, 16}


def devinfo(host):
    """ibv_devinfo -v as a dict of its first value for each name."""
    text = host.run(f"ibv_devinfo -v -d {DEVICE}", check=True).out
    found = {}
    for name, value in re.findall(r"^\s*([\w .]+?)(?:\[.*\])?:\s+(.*)$", text, re.MULTILINE):
        found.setdefault(name, value.strip())
    return found


def test_one_active_port_on_each_host(driver):
    for host in driver.hosts.values():
        info = devinfo(host)
        assert info["hca_id"] == DEVICE
        assert info["state"].startswith("PORT_ACTIVE")
        assert info["link_layer"] == "Ethernet"
        assert int(info["phys_port_cnt"]) == 1
        # One cable, one device.
        assert host.run("ls /sys/class/infiniband", check=True).out.split() == [DEVICE]


def test_limits_are_those_that_applications_need(driver):
    info = devinfo(driver.a)
    least = {"max_qp": 4096, "max_qp_wr": 16384, "max_sge": 16, "max_cqe": 65536,
             "max_mr": 65536, "max_pd": 4096, "max_qp_rd_atom": 16, "max_qp_init_rd_atom": 16}
    short = {name: info[name] for name, value in least.items() if int(info[name]) < value}
    assert not short
    assert int(info["max_msg_sz"], 0) >= 1 << 30


def test_guids_are_set_and_differ(driver):
    guids = {host.name: host.read(f"{SYSFS}/node_guid") for host in driver.hosts.values()}
    assert guids["a"] != guids["b"]
    assert "0000:0000:0000:0000" not in guids.values()


def test_speed_and_width_are_legal(driver):
    info = devinfo(driver.a)
    speed = int(re.search(r"\((\d+)\)", info["active_speed"]).group(1))
    width = int(re.search(r"\((\d+)\)", info["active_width"]).group(1))
    assert speed in SPEEDS and width in WIDTHS
    assert float(re.match(r"[\d.]+", info["active_speed"]).group()) > 2.5


def test_gid_of_the_cables_interface(driver):
    for host in driver.hosts.values():
        index = gid_index(host)
        wanted = "".join(f"{int(part):02x}" for part in driver.addresses[host.name].split("."))
        gid = host.read(f"{SYSFS}/ports/1/gids/{index}")
        assert gid.replace(":", "").endswith("ffff" + wanted)
        netdev = host.read(f"{SYSFS}/ports/1/gid_attrs/ndevs/{index}")
        assert netdev == host.netdev()


def test_parent_is_the_host_router(driver):
    for host in driver.hosts.values():
        # Base class 0c (serial bus), 03 (USB), interface 40 (USB4).
        assert host.read(f"{SYSFS}/device/class") == "0x0c0340"


def test_provider_is_found_without_a_warning(driver):
    result = driver.a.run("ibv_devinfo", env={"IBV_SHOW_WARNINGS": "1"}, check=True)
    assert "arning" not in result.err + result.out


def test_parameters_say_unit_range_and_default(driver):
    modinfo = driver.a.run("modinfo -p usb4_rdma", check=True).out
    described = {name for name, *_ in DESCRIPTION.findall(modinfo)}
    present = set(driver.a.run(f"ls {PARAMETERS}", check=True).out.split())
    assert present and described == present


def test_parameter_out_of_range_is_refused(driver):
    modinfo = driver.a.run("modinfo -p usb4_rdma", check=True).out
    for name, _unit, low, high, _default in DESCRIPTION.findall(modinfo):
        path = f"{PARAMETERS}/{name}"
        before = driver.a.read(path)
        for bad in (int(high) + 1, int(low) - 1, "many", ""):
            result = driver.a.run(f"echo '{bad}' >{path}")
            assert not result.ok, f"{name} took {bad!r}"
        assert driver.a.read(path) == before
        for good in (low, high, before):
            driver.a.run(f"echo {good} >{path}", check=True)
            assert driver.a.read(path) == good


def test_rings_do_not_count_against_memlock(driver):
    """As a user with 256 KiB of locked memory: queues of several MiB can be made."""
    command = ("setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "
               "--bounding-set=-all sh -c 'ulimit -l 256 && ulimit -l && u4r_badinput limits'")
    driver.a.run("chmod a+rw /dev/infiniband/uverbs0", check=True)
    result = driver.a.run(command, timeout=60, check=True)
    assert result.out.startswith("256\n") and "ok limits" in result.out


def test_doctor_finds_nothing_wrong(driver):
    driver.a.write("/run/doctor", (TOP / "scripts/doctor").read_text())
    result = driver.a.run("bash /run/doctor", check=True)
    assert "all is well" in result.out


def test_doctor_tells_a_missing_address(driver):
    driver.a.write("/run/doctor", (TOP / "scripts/doctor").read_text())
    netdev, address = driver.a.netdev(), driver.addresses["a"]
    driver.a.run(f"ip address del {address}/24 dev {netdev}", check=True)
    try:
        driver.a.wait_until(f"! grep -rq ffff:0a63 {SYSFS}/ports/1/gids", 10)
        result = driver.a.run("bash /run/doctor")
        assert result.rc == 1 and "no IPv4 address" in result.out
    finally:
        driver.a.run(f"ip address add {address}/24 dev {netdev}", check=True)
        driver.a.wait_until(f"grep -rq ffff:0a63 {SYSFS}/ports/1/gids", 10)


@pytest.mark.parametrize("parameters", ["lanes=0", "ring_size=100", "poll_us=99999999"])
def test_module_refuses_bad_parameters(driver, parameters):
    """The last tests here: the driver is taken out and put back."""
    driver.a.run("rmmod usb4_rdma", check=True)
    try:
        result = driver.a.run(f"modprobe usb4_rdma {parameters}")
        assert not result.ok
        assert "usb4_rdma" not in driver.a.run("lsmod", check=True).out
    finally:
        driver.a.run("modprobe usb4_rdma", check=True)
