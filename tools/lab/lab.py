# SPDX-License-Identifier: GPL-2.0
"""The lab as a whole: guests, cable, and the driver loaded in them."""

import os
import shutil
import threading

from . import build, places, procs
from .cable import Cable
from .host import Host
from .places import LabError, say

# Addresses of the two ends on the thunderbolt-net interface.
NETWORK = "10.99.0.{}"
DISCOVERY_PATIENCE = 60


class Lab:
    """Two guests and a cable between them, as a context manager.

    profile      profile of both hosts (amd, tb4, tb5), or a dict host -> profile
    mode         how vcable serves the registers: `sparse` (fast) or `sync` (exact)
    rate_mbps    link rate in Mb/s; None is the profile's, 0 none at all
    latency_us   one-way delay in microseconds; None is the profile's
    plugged      False boots with the cable unplugged
    cable        False leaves host routers and cable out
    ethernet     True adds an ordinary network card to each guest, joined back to back
    memory, cpus of each guest
    kernel_args  added to the guests' kernel command line
    background   True for a lab that is mostly idle: it does not wait for others

    The hosts are `lab.a` and `lab.b`, and `lab.hosts` by name. `lab.logs` is the
    directory with everything they and the cable wrote.
    """

    def __init__(self, profile="tb4", mode="sparse", rate_mbps=None, latency_us=None,
                 plugged=True, cable=True, ethernet=False, memory="768M", cpus=2,
                 kernel_args="", background=False):
        names = sorted(profile) if isinstance(profile, dict) else ["a", "b"]
        if len(names) != 2:
            raise LabError("this lab has two hosts")
        self.profiles = profile if isinstance(profile, dict) else dict.fromkeys(names, profile)
        # KASAN's shadow and the quarantine take their share.
        memory = "2G" if places.debug() else memory
        self.options = {"memory": memory, "cpus": cpus, "kernel_args": kernel_args}
        self._mode = mode
        self._link = {"name": "c0", "a": f"{names[0]}:1", "b": f"{names[1]}:1",
                      "rate_mbps": rate_mbps, "latency_us": latency_us,
                      "plugged": None if plugged else False}
        self._ethernet = ethernet
        self._with_cable = cable
        self.hosts = {}
        self.vcable = None
        self.logs = None
        self._sockets = None
        self._background = background

    def __enter__(self):
        try:
            return self.up()
        except BaseException:
            self.down()
            raise

    def __exit__(self, *_):
        self.down()

    def __getattr__(self, name):
        hosts = self.__dict__.get("hosts", {})
        if name in hosts:
            return hosts[name]
        raise AttributeError(name)

    def up(self):
        """Builds what is missing, starts cable and guests, waits until both answer."""
        stage = build.stage()
        if not self._background:
            procs.take_slot(places.CACHE,
                            lambda: say("waiting: other labs keep this machine busy"))
        self.logs = places.new_run_dir()
        self._sockets = places.new_socket_dir()
        say(f"booting {' and '.join(self.profiles)}, logs in {self.logs}")
        if self._with_cable:
            self.vcable = Cable(build.vcable(stage), self._sockets, self.logs, self.profiles,
                                [self._link], self._mode)
        for name in self.profiles:
            self.hosts[name] = self._start(name, stage)
        woken = self.each(self._wait_up)
        for name in [name for name, up in woken.items() if not up]:
            # Here, not in the waiting thread: a guest ends with the thread that started it.
            say(f"host {name} printed nothing: it is started once more")
            self.power_cycle(name)
        say("both guests are up")
        return self

    def _wait_up(self, host):
        """Waits for a guest. False: it never printed a line.

        That was seen once in some fifty boots, and is the virtual machine's, not the guest's.
        """
        try:
            host.wait_up()
        except LabError:
            if host.console.strip():
                raise
            return False
        return True

    def _start(self, name, stage):
        """Starts the virtual machine of a host."""
        index = list(self.profiles).index(name)
        options = dict(self.options, index=index)
        if self.vcable:
            options["nhi"] = self.vcable.sockets[name]
        if self._ethernet:
            options["ethernet"] = (self._sockets / "ethernet", index == 0)
        return Host(name, self._sockets, self.logs / name, stage, options)

    def power_cycle(self, name):
        """Takes a host's power away and boots it again; its cable stays plugged.

        `lab.hosts` then has a new Host of that name, with logs of its own.
        """
        self.hosts[name].stop()
        (self.logs / name).rename(self.logs / f"{name}-{len(list(self.logs.iterdir()))}")
        self.hosts[name] = self._start(name, build.stage())
        self.hosts[name].wait_up()

    def down(self):
        """Ends everything. Safe to call more than once."""
        for host in self.hosts.values():
            host.stop()
        if self.vcable:
            self.vcable.stop()
            self.vcable = None
        if self._sockets:
            shutil.rmtree(self._sockets, ignore_errors=True)
            self._sockets = None

    def each(self, action):
        """Calls `action(host)` for both hosts at once; a dict of what it returned.

        The threads are daemons, so that a signal ends the lab although they still wait.
        """
        results, errors = {}, []

        def call(name, host):
            try:
                results[name] = action(host)
            except Exception as error:  # handed on to the caller
                errors.append(error)

        threads = [threading.Thread(target=call, args=item, daemon=True)
                   for item in self.hosts.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results

    def run(self, command, timeout=60, check=True):
        """Runs one command on both hosts at once; a dict of Results."""
        return self.each(lambda host: host.run(command, timeout, check))

    def cable(self, request):
        """Sends a request to vcable's control socket and returns the reply."""
        if not self.vcable:
            raise LabError("this lab has no cable")
        return self.vcable.ask(request)

    def plug(self):
        """Plugs the cable."""
        return self.cable({"cmd": "plug", "cable": "c0"})

    def unplug(self):
        """Pulls the cable."""
        return self.cable({"cmd": "unplug", "cable": "c0"})

    def wait_discovery(self, timeout=DISCOVERY_PATIENCE):
        """Waits until each host has found the other one."""
        # The root device of a domain is 0-0, so a peer is anything else.
        self.each(lambda host: host.wait_until(
            "ls -d /sys/bus/thunderbolt/devices/[0-9]-[1-9] >/dev/null 2>&1", timeout))

    def network(self, timeout=DISCOVERY_PATIENCE):
        """Loads thunderbolt-net, gives 10.99.0.1 and .2 to the two ends, waits for a ping.

        Returns the dict host -> address.
        """
        addresses = {name: NETWORK.format(index + 1) for index, name in enumerate(self.hosts)}

        def configure(host):
            host.run("modprobe thunderbolt_net", check=True)
            host.wait_until("ls -d /sys/class/net/thunderbolt0 >/dev/null 2>&1", timeout)
            host.run(f"ip address replace {addresses[host.name]}/24 dev thunderbolt0 && "
                     "ip link set thunderbolt0 up", check=True)

        self.each(configure)
        first, second = self.hosts
        self.hosts[first].wait_until(f"ping -c1 -W1 {addresses[second]} >/dev/null", timeout)
        return addresses

    def load_driver(self, parameters="", network=True, timeout=DISCOVERY_PATIENCE):
        """Loads usb4_rdma on both hosts and waits for an ACTIVE port usb4_rdma0.

        `parameters` goes to modprobe; `network` sets up thunderbolt-net first. Returns
        the addresses, as network() does.
        """
        addresses = self.network(timeout) if network else {}
        self.run(f"modprobe usb4_rdma {parameters}")
        self.wait_active(timeout)
        return addresses

    def wait_active(self, timeout):
        """Waits until usb4_rdma0 is active on both hosts."""
        self.each(lambda host: host.wait_until(
            "grep -q ACTIVE /sys/class/infiniband/usb4_rdma0/ports/1/state 2>/dev/null", timeout))

    def kernel_faults(self):
        """Passages of WARN, BUG, oops from both kernels' logs, as `host: passage`."""
        return [f"{name}: {passage}" for name, host in self.hosts.items()
                for passage in host.kernel_faults()]

    def check_logs(self):
        """Raises AssertionError if either kernel reported a fault, or has died."""
        found = self.kernel_faults()
        found += [f"{name}: the guest is dead" for name, host in self.hosts.items()
                  if not host.alive]
        if found:
            raise AssertionError("\n\n".join(found) + f"\nlogs: {self.logs}")


def driver_built():
    """True if this checkout has a driver and it was built."""
    return os.path.exists(build.stage() / "usb4_rdma.ko")


procs.exit_on_signals()
