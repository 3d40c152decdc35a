"""Machines on a network of their own, as network namespaces: one for each node, and one with the bridge between them, where clients are.

Knows: ``ip``, namespaces. Must not know: the product. Everything is inside namespaces that are made here; nothing else of the machine's
network is touched. Their names hold this process's number: what a killed run left behind is removed by the next.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PREFIX = "tenure-faults"
NETWORK = "10.213.77"
CLONE_NEWNET = 0x40000000


class NotPermitted(Exception):
    """This machine has no such network for us; the message says why."""


def _ip(*arguments: str) -> str:
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=20, check=False)
    except OSError as error:
        raise NotPermitted(f"ip cannot be run: {error}") from None
    if done.returncode:
        raise NotPermitted(f"`ip {' '.join(arguments)}` is not permitted here: {done.stderr.strip()[:200]}")
    return done.stdout


class Network:
    """``size`` machines, 10.213.77.1 and on, around a hub."""

    def __init__(self, size: int) -> None:
        self.addresses = [f"{NETWORK}.{number}" for number in range(1, size + 1)]
        self._mark = f"{PREFIX}-{os.getpid()}"
        self.hub = f"{self._mark}-hub"

    def machine(self, address: str) -> str:
        """The namespace of a machine."""
        return f"{self._mark}-{address.rpartition('.')[2]}"

    def make(self) -> None:
        """Raises NotPermitted; nothing is left behind then."""
        if not sys.platform.startswith("linux") or shutil.which("ip") is None:
            raise NotPermitted("network namespaces need Linux and ip (Debian: iproute2)")
        if os.geteuid() != 0:
            raise NotPermitted("making network namespaces is for root only")
        _remove_abandoned()
        try:
            _ip("netns", "add", self.hub)
            self._hub("link", "set", "lo", "up")
            self._hub("link", "add", "bridge", "type", "bridge")
            self._hub("address", "add", f"{NETWORK}.254/24", "dev", "bridge")
            self._hub("link", "set", "bridge", "up")
            for address in self.addresses:
                self._add(address)
            # How the nodes are started.
            _ip("netns", "exec", self.hub, "true")
        except BaseException:
            self.remove()
            raise

    def _add(self, address: str) -> None:
        machine, port = self.machine(address), self._port(address)
        _ip("netns", "add", machine)
        self._hub("link", "add", port, "type", "veth", "peer", "name", "uplink", "netns", machine)
        self._hub("link", "set", port, "master", "bridge", "up")
        _ip("-n", machine, "link", "set", "lo", "up")
        _ip("-n", machine, "address", "add", f"{address}/24", "dev", "uplink")
        _ip("-n", machine, "link", "set", "uplink", "up")

    def _hub(self, *arguments: str) -> None:
        _ip("-n", self.hub, *arguments)

    @staticmethod
    def _port(address: str) -> str:
        return f"port{address.rpartition('.')[2]}"

    def unplug(self, address: str) -> None:
        """Take the machine's link down: nothing comes or goes, and nobody is told."""
        self._hub("link", "set", self._port(address), "down")

    def plug(self, address: str) -> None:
        self._hub("link", "set", self._port(address), "up")

    def remove(self) -> None:
        for name in (*(self.machine(address) for address in self.addresses), self.hub):
            with contextlib.suppress(NotPermitted):
                _ip("netns", "delete", name)


def _remove_abandoned() -> None:
    for line in _ip("netns", "list").splitlines():
        name = line.split(" ")[0]
        owner = name.removeprefix(f"{PREFIX}-").partition("-")[0]
        if name.startswith(f"{PREFIX}-") and owner.isdigit() and not Path(f"/proc/{owner}").exists():
            _ip("netns", "delete", name)


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread is in a network namespace for the time of a ``with`` block, and so are the threads and processes that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY | os.O_CLOEXEC)

    def enter(descriptor: int) -> None:
        if libc.setns(descriptor, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns to {namespace}")

    try:
        enter(there)
        try:
            yield
        finally:
            enter(here)
    finally:
        os.close(there)
        os.close(here)


@contextlib.contextmanager
def network(size: int) -> Iterator[Network]:
    """A ``Network`` for the time of a ``with`` block; the test is skipped where none can be had."""
    made = Network(size)
    try:
        made.make()
    except NotPermitted as error:
        pytest.skip(str(error))
    try:
        yield made
    finally:
        made.remove()
