"""``join_or_connect``: one process is the node, another takes over when it ends, and what the others hold lives on.

Knows: processes, signals, the lock file. Must not know: how a process learns that it is its turn. ``test_prefork.py`` has a real server.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import tenure
from cluster import prefork
from cluster.client import IoThread
from cluster.descriptors import LockedFile
from cluster.env import boot_clock
from tests.house import ROOT
from tests.support import eventually
from tests.support_cluster import free_ports
from tests.system.program_seat import take_seat

# Promised are two seconds; a machine that is busy with other tests gets more.
BACK_WITHIN_S = 8.0


class Site:
    """Where the processes of one machine meet: a socket, an address, a data directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / "node.sock"
        (port,) = free_ports(1)
        self.listen = f"127.0.0.1:{port}"
        self.peers = ""
        self.processes: list[subprocess.Popen[str]] = []
        self.said: dict[str, str] = {}

    @contextlib.contextmanager
    def seat(self) -> Iterator[tenure.Coordinator]:
        """A seat of this process."""
        coordinator = take_seat(str(self.socket), self.listen, str(self.directory / "data"), self.peers)
        yield coordinator
        coordinator.close(limit=0)

    def node(self) -> int:
        return int(Path(f"{self.socket}.lock").read_text() or 0)

    def start(self, mode: str = "plain") -> subprocess.Popen[str]:
        """A process that has taken its seat."""
        process = self.begin(mode)
        self.wait_seated(process, mode)
        return process

    def begin(self, mode: str = "plain") -> subprocess.Popen[str]:
        arguments = [str(self.socket), self.listen, str(self.directory / "data"), mode, self.peers]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.program_seat", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def wait_seated(self, process: subprocess.Popen[str], mode: str = "plain") -> None:
        assert process.stdout is not None
        self.said = {}
        while not {"seated", *(["child"] if mode == "fork" else [])} <= set(self.said):
            word, _, rest = process.stdout.readline().strip().partition(" ")
            assert word, "it has ended"
            self.said[word] = rest

    def close(self) -> None:
        if "child" in self.said:
            os.kill(int(self.said["child"]), signal.SIGKILL)
        for process in self.processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


@pytest.fixture
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Site]]:
    """Three, as if each were a machine of its own."""
    made = [Site(tmp_path_factory.mktemp("seats")) for _ in range(3)]
    yield made
    for site in made:
        site.close()


@pytest.fixture
def site(sites: list[Site]) -> Site:
    return sites[0]


def test_a_sibling_takes_over_and_what_it_holds_lives_on(site: Site) -> None:
    first = site.start()
    with site.seat() as coordinator:
        assert site.node() == first.pid
        kept = coordinator.acquire("kept", lease_time=30, auto_extend=True)
        plain = coordinator.acquire("plain", lease_time=30)
        assert kept is not None
        assert plain is not None
        first.kill()
        begun = boot_clock()
        assert coordinator.acquire("kept", timeout=BACK_WITHIN_S) is None
        took_s = boot_clock() - begun
        assert took_s < BACK_WITHIN_S
        assert site.node() == os.getpid()
        assert (kept.confidence, plain.confidence) == ("held", "held")
        assert isinstance(kept.extend(60), tenure.Extended)
        assert plain.release()
        later = coordinator.acquire("plain", lease_time=30)
        assert later is not None
        assert later.token > plain.token


def test_a_group_of_machines_serves_on_while_one_of_them_changes_its_node(sites: list[Site]) -> None:
    for site in sites:
        site.peers = ",".join(each.listen for each in sites)
    begun = [(site, site.begin()) for site in sites]
    for site, process in begun:
        site.wait_seated(process)
    with sites[0].seat() as coordinator:
        held = coordinator.acquire("held", lease_time=60, auto_extend=True)
        assert held is not None
        begun[0][1].kill()
        assert isinstance(held.extend(120), tenure.Extended)
        eventually(lambda: sites[0].node() == os.getpid(), BACK_WITHIN_S)
        eventually(lambda: _all_connected(coordinator), BACK_WITHIN_S, "three members again")
        assert held.confidence == "held"


def _all_connected(coordinator: tenure.Coordinator) -> bool:
    status = coordinator.status()
    return len(status.members) == 3 and all(member["connected"] for member in status.members)


def test_a_node_that_is_closed_hands_over_to_who_is_there(site: Site) -> None:
    with site.seat():
        assert site.node() == os.getpid()
        other = site.start()
    eventually(lambda: site.node() == other.pid, BACK_WITHIN_S)
    with site.seat() as again:
        assert again.acquire("job", timeout=BACK_WITHIN_S) is not None
        assert site.node() == other.pid


def test_what_an_ended_process_held_is_free_when_its_time_is_over(site: Site) -> None:
    other = site.start()
    with site.seat() as coordinator:
        held = coordinator.acquire("job", lease_time=2.0)
        other.kill()
        waited = coordinator.acquire("job", wait_time=20.0)
        assert waited is not None
        assert held is not None
        assert held.lost.is_set()
        assert waited.token > held.token


def test_a_forked_child_keeps_nothing_that_would_keep_others_from_taking_over__D2(site: Site) -> None:
    parent = site.start("fork")
    assert site.node() == parent.pid
    assert site.said["refused"] == "True"
    with site.seat() as coordinator:
        # Its child lives on, with copies of the lock, the sockets and our connection.
        parent.kill()
        parent.wait()
        assert coordinator.acquire("job", timeout=BACK_WITHIN_S) is not None
        assert site.node() in (os.getpid(), int(site.said["child"]))


def test_tasks_take_seats_too(site: Site) -> None:
    async def main() -> list[Any]:
        options: dict[str, Any] = {"single": True, "data_dir": str(site.directory / "data")}
        one = await tenure.aio.join_or_connect(site.socket, site.listen, **options)
        other = await tenure.aio.join_or_connect(f"unix:{site.socket}", site.listen, **options)
        outcomes = [await coordinator.aio.acquire("job") for coordinator in (one, other)]
        for coordinator in (one, other):
            await coordinator.aio.close(limit=0)
        return outcomes

    granted, refused = asyncio.run(main())
    assert granted.token > 0
    assert refused is None


def test_without_a_majority_both_the_node_and_its_sibling_say_so(site: Site) -> None:
    (elsewhere,) = free_ports(1)

    async def main() -> list[Any]:
        seats = [
            tenure.aio.join_or_connect(
                site.socket, site.listen, f"127.0.0.1:{elsewhere}", ephemeral=True, ready_timeout=1.5
            )
            for _ in range(2)
        ]
        return list(await asyncio.gather(*seats, return_exceptions=True))

    assert [type(outcome) for outcome in asyncio.run(main())] == [tenure.Unavailable] * 2
    assert not site.socket.exists()


def test_bad_places_are_refused(site: Site) -> None:
    def refused(socket_path: str, listen: str = "127.0.0.1:1") -> str:
        with pytest.raises(tenure.UsageError) as caught:
            tenure.join_or_connect(socket_path, listen, single=True, data_dir=str(site.directory / "data"))
        return str(caught.value)

    assert "begin it with /" in refused("node.sock")
    assert "lock file /no/such/place/node.sock.lock" in refused("/no/such/place/node.sock")
    assert "no address has" in refused(f"{site.socket}\0")
    with tenure.join(site.listen, single=True, ephemeral=True):
        assert "in use" in refused(str(site.socket), site.listen)


@pytest.mark.parametrize(
    "given",
    [
        {"single": "yes"},
        {"ephemeral": 1},
        {"insecure": "no"},
        {"data_dir": 5},
        {"data_dir": "a\0b"},
        {"peers": 5},
        {"peers": [5]},
        {"listen": None},
    ],
)
def test_what_says_nothing_is_refused(site: Site, given: dict[str, Any]) -> None:
    arguments = {"listen": site.listen, "single": "peers" not in given, **given}
    with pytest.raises(tenure.UsageError, match=next(iter(given)).removesuffix("s")):
        tenure.join_or_connect(site.socket, **arguments)
    with pytest.raises(tenure.UsageError, match=next(iter(given)).removesuffix("s")):
        tenure.join(**arguments)


@pytest.mark.parametrize("trouble", [OSError(errno.EMFILE, "too many open files"), MemoryError(), ValueError()])
def test_who_could_not_try_once_still_takes_over_later(
    site: Site, trouble: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[str] = []

    def failing(path: str) -> LockedFile:
        if not failed:
            failed.append(path)
            raise trouble
        return LockedFile(path)

    with site.seat() as node, site.seat() as other:
        monkeypatch.setattr(prefork, "LockedFile", failing)
        eventually(lambda: failed, 5, "a try that fails")
        node.close()
        assert other.acquire("job", timeout=20) is not None


def test_trouble_of_an_unknown_kind_is_told_and_no_wait_for_ever(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(path: str) -> LockedFile:
        raise ZeroDivisionError

    monkeypatch.setattr(prefork, "LockedFile", failing)
    with pytest.raises(ZeroDivisionError), site.seat():
        pass


@pytest.mark.parametrize("way", ["join", "join_or_connect"])
def test_who_is_interrupted_while_its_node_begins_leaves_nothing_that_is_locked(
    site: Site, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = site.directory / "data"
    place = [site.listen] if way == "join" else [site.socket, site.listen]

    def begin() -> tenure.Coordinator:
        coordinator: tenure.Coordinator = getattr(tenure, way)(*place, single=True, data_dir=data)
        return coordinator

    def interrupted(io: IoThread, work: Coroutine[Any, Any, Any]) -> None:
        io.start(work)
        eventually((data / "lock").exists, 10, "the node's lock")
        raise KeyboardInterrupt

    begin().close(limit=0)
    for turn in range(3):
        (data / "lock").unlink()
        with monkeypatch.context() as patched:
            patched.setattr(IoThread, "run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                begin()
        with begin() as coordinator:
            lease = coordinator.acquire(f"job/{turn}")
            assert lease is not None
            lease.release()
