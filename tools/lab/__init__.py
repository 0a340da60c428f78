# SPDX-License-Identifier: GPL-2.0
"""The lab: two guests with a stock kernel, joined by an emulated cable.

    from lab import Lab

    with Lab(profile="tb4") as lab:
        lab.load_driver()
        result = lab.a.run("ibv_devinfo", timeout=30, check=True)
        server = lab.b.start("ib_send_bw -d usb4_rdma0 -F")
        lab.cable({"cmd": "unplug", "cable": "c0"})
        lab.check_logs()

Documentation/lab.md describes it for a reader, `Lab` and `Host` for a caller.
"""

from .agent import Job, Result
from .host import Host
from .lab import Lab
from .places import LabError

__all__ = ["Host", "Job", "Lab", "LabError", "Result"]
