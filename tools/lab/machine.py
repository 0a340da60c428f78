# SPDX-License-Identifier: GPL-2.0
"""The virtual machine of one guest: QEMU's command line."""

import json
import pathlib

from . import kvm, places

# A broken guest is found by the lab's time-outs; the kernel's own watchdogs
# would take a busy TCG machine for one.
KERNEL_ARGS = ("console=ttyS0 quiet loglevel=4 panic=-1 nokaslr mitigations=off "
               "watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120 net.ifnames=0")
# Measured, see Documentation/lab.md.
TCG_FLAGS = ",-la57,-erms,-fsrm"


def accel_args():
    """Accelerator and CPU model."""
    if kvm.accelerator() == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg,thread=multi", "-cpu", f"max{TCG_FLAGS}"]


def command(name, sockets, logs, stage, options):
    """QEMU's argv for guest `name`.

    `sockets` is the directory of its sockets, `logs` the host directory that the
    guest sees as /logs, `stage` the one it sees as /u4r. `options` is a dict:
    memory, cpus, nhi (socket of its host router, or None), ethernet (socket and
    whether to listen on it, or None), kernel_args.
    """
    image = places.guest()
    argv = ["qemu-system-x86_64", "-name", f"u4r-{name}", *accel_args(),
            "-machine", "q35,memory-backend=mem",
            # Shared, backed by an fd: the cable reaches guest memory through it.
            "-object", f"memory-backend-memfd,id=mem,size={options['memory']},share=on",
            "-m", options["memory"], "-smp", str(options["cpus"]),
            "-nodefaults", "-display", "none", "-no-reboot",
            "-kernel", image / "vmlinux", "-initrd", image / "initrd",
            "-append", f"{KERNEL_ARGS} u4r.host={name} {options.get('kernel_args', '')}",
            "-drive", f"file={image / 'disk.ext4'},format=raw,if=virtio,snapshot=on",
            "-monitor", f"unix:{sockets / name}.monitor,server=on,wait=off",
            "-serial", f"file:{pathlib.Path(logs) / 'console.log'}",
            "-device", "virtio-serial-pci", "-device", "virtio-rng-pci",
            "-chardev", f"socket,id=agent,path={sockets / name}.agent,server=on,wait=off",
            "-device", "virtserialport,chardev=agent,name=u4r.agent",
            "-virtfs", f"local,path={stage},mount_tag=u4r,security_model=none,readonly=on",
            "-virtfs", f"local,path={logs},mount_tag=logs,security_model=none"]
    if options.get("nhi"):
        # Posted writes would let the guest free a ring's buffers before the
        # router has seen that the ring was stopped.
        device = {"driver": "vfio-user-pci", "x-no-posted-writes": True,
                  "socket": {"type": "unix", "path": str(options["nhi"])}}
        argv += ["-device", json.dumps(device)]
    if options.get("ethernet"):
        path, listen = options["ethernet"]
        mac = f"52:54:00:00:00:{options['index'] + 1:02x}"
        argv += ["-netdev", f"stream,id=net,addr.type=unix,addr.path={path},"
                            f"server={'on' if listen else 'off'}"
                            + ("" if listen else ",reconnect-ms=200"),
                 "-device", f"virtio-net-pci,netdev=net,mac={mac}"]
    return argv
