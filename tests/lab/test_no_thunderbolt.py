# SPDX-License-Identifier: GPL-2.0
"""A machine without a host router: the module loads, says so, and goes again."""

LAB = {"cable": False}


def test_loads_and_says_so(lab):
    for host in lab.hosts.values():
        host.run("modprobe usb4_rdma", check=True)
        assert "usb4_rdma: no Thunderbolt or USB4 host router" in host.dmesg()
        assert not host.run("ls /sys/class/infiniband").out.split()
        host.run("rmmod usb4_rdma", check=True)
