# SPDX-License-Identifier: GPL-2.0
"""Each limit that `ibv_devinfo -v` prints is reached by a test, and refused one above.

The table says where. A limit that is not in it fails: whoever announces one tests it.
"""

import re

from pairs import DEVICE

# Name -> the value that was tested, and the case of u4r_badinput or the program that
# goes there and one beyond.
TESTED = {
    "max_qp": (4096, "object_counts"),
    "max_qp_wr": (16384, "limits"),
    "max_sge": (16, "limits"),
    "max_sge_rd": (16, "limits"),
    "max_cq": (8192, "object_counts"),
    "max_cqe": (65536, "limits, resize_cq"),
    "max_mr": (65536, "object_counts"),
    "max_mw": (8192, "windows"),
    "max_pd": (4096, "object_counts"),
    "max_qp_rd_atom": (16, "limits"),
    "max_qp_init_rd_atom": (16, "limits"),
    # All queue pairs' together, which the two above bound.
    "max_res_rd_atom": (16 * 4096, "limits"),
    "max_srq": (4096, "object_counts"),
    "max_srq_wr": (16384, "u4r_srq"),
    "max_srq_sge": (16, "u4r_srq"),
    "max_pkeys": (1, "test_one_partition_key"),
    "max_msg_sz": (1 << 30, "longest_message"),
    # No limit: the program's own memory is.
    "max_mr_size": ((1 << 64) - 1, "none"),
}
# Of the port: not limits of objects or messages.
OTHER = {"max_mtu", "max_vl_num", "max_ah", "max_cq_count", "max_cq_period"}


def test_every_limit_is_one_that_was_tested(driver):
    text = driver.a.run(f"ibv_devinfo -v -d {DEVICE}", check=True).out
    printed = {name: int(value, 0) for name, value in
               re.findall(r"^\s*(max_\w+):\s+(0x[0-9a-f]+|\d+)", text, re.MULTILINE)}
    named = {name: value for name, value in printed.items() if value and name not in OTHER}
    assert named == {name: value for name, (value, _where) in TESTED.items()}


def test_one_partition_key(driver):
    listed = driver.a.run("ls /sys/class/infiniband/usb4_rdma0/ports/1/pkeys", check=True).out
    assert listed.split() == ["0"]
    # Two lines, as a `try` cannot stand behind a semicolon.
    program = ("import pyverbs.device as d; c = d.Context(name='usb4_rdma0'); "
               "assert c.query_pkey(1, 0) == 0xffff\ntry: c.query_pkey(1, 1)\n"
               "except Exception: print('refused')")
    assert "refused" in driver.a.run(["python3", "-c", program], check=True).out
