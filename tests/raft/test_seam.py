"""The seam to pysyncobj: the release, its private names, and what two users of it in one process share."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import pysyncobj.syncobj  # type: ignore[import-untyped]
import pytest

from cluster.raft import RaftNode, engine
from cluster.raft.adapter import Adapter
from tests.raft.lab import World
from tests.raft.sim import run_seed

pytestmark = pytest.mark.fast


def test_another_release_is_refused__R14() -> None:
    real = pysyncobj.syncobj.SyncObj
    engine.check("0.3.17", real)
    with pytest.raises(ImportError, match=r"made for pysyncobj 0\.3\.17, this is 0\.3\.18"):
        engine.check("0.3.18", real)

    class Renamed:
        def __init__(self) -> None:
            self._SyncObj__raftState = 0

    with pytest.raises(ImportError, match="_SyncObj__setState"):
        engine.check("0.3.17", Renamed)


def test_every_private_name_that_is_used_is_checked__R14() -> None:
    used: set[str] = set()
    for file in (Path(engine.__file__).parent).glob("*.py"):
        if file.name != "engine.py":
            used |= set(re.findall(r"_SyncObj__\w+", file.read_text()))
    assert used == {name for name in (*engine.ATTRIBUTES, *engine.METHODS) if name.startswith("_SyncObj__")}


def test_two_nodes_in_one_process_share_neither_clock_nor_journal_nor_settings__R13() -> None:
    one = World("ABC")
    other = World("ABC", election_min_s=1.0, election_max_s=2.0)
    other.now = 90_000.0
    one.form("A")
    other.now += 3.0
    other.form("B")
    assert one["A"].adapter._SyncObj__conf.raftMinTimeout == 0.3
    assert other["A"].adapter._SyncObj__conf.raftMinTimeout == 1.0
    assert one["A"].adapter._SyncObj__raftLog is one["A"].storage.journal
    assert other["A"].adapter._SyncObj__raftLog is other["A"].storage.journal
    assert one["C"].adapter._SyncObj__raftElectionDeadline < 1100.0
    assert other["C"].adapter._SyncObj__raftElectionDeadline > 90_000.0


def test_the_application_s_own_pysyncobj_is_left_alone__R13() -> None:
    World("ABC").form("A")
    journal = pysyncobj.syncobj.createJournal(None)
    assert type(journal).__name__ == "MemoryJournal"
    assert abs(pysyncobj.syncobj.monotonicTime() - pysyncobj.monotonic.monotonic()) < 60.0


def test_nodes_on_two_threads_keep_apart__R13() -> None:
    clocks = {"one": 10.0, "two": 20.0}
    seen: dict[str, set[float]] = {"one": set(), "two": set()}
    barrier = threading.Barrier(2)

    def look(name: str) -> None:
        for _ in range(200):
            barrier.wait()
            engine.stock(None, lambda: clocks[name], lambda: seen[name].add(pysyncobj.syncobj.monotonicTime()))

    threads = [threading.Thread(target=look, args=(name,)) for name in clocks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"one": {10.0}, "two": {20.0}}


def test_the_package_loads_pysyncobj_only_when_a_node_is_asked_for() -> None:
    code = "import cluster.raft, sys; print('pysyncobj' in sys.modules); cluster.raft.RaftNode; print('pysyncobj' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
    with pytest.raises(AttributeError, match="Nothing"):
        _ = __import__("cluster.raft", fromlist=["x"]).Nothing
    assert isinstance(RaftNode, type)


def table_of_methods() -> dict[str, str]:
    """Method -> stock, wrapped, ours or never, as ``docs/raft.md`` says."""
    text = (Path(__file__).parent.parent.parent / "docs" / "raft.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (stock|wrapped|ours|never) \|", text, re.MULTILINE)
    return {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}


def test_the_document_tells_of_every_method_of_the_engine__R14() -> None:
    members = vars(pysyncobj.syncobj.SyncObj)
    methods = {name for name, value in members.items() if callable(value) or isinstance(value, property)}
    assert set(table_of_methods()) == methods


def test_what_the_document_says_is_ours_is_overridden_and_nothing_else() -> None:
    ours = {name for name, kind in table_of_methods().items() if kind == "ours"}
    released = pysyncobj.syncobj.SyncObj
    overridden = {name for name in table_of_methods() if getattr(Adapter, name) is not getattr(released, name)}
    assert overridden - ours == {"__init__", "_SyncObj__onBecomeLeader"}
    assert {table_of_methods()[name] for name in overridden - ours} == {"wrapped"}


def test_what_the_document_says_never_runs_never_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def trap(name: str) -> object:
        def never(self: object, *args: object, **kwargs: object) -> None:
            ran.append(name)

        return never

    for name, kind in table_of_methods().items():
        if kind == "never":
            monkeypatch.setattr(pysyncobj.syncobj.SyncObj, name, trap(name))
    for seed in range(3):
        assert not run_seed(seed, "storm").ledger.violations
    assert ran == []
