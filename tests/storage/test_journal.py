"""The journal as a list: in memory, on a simulated disk and on this machine's disk it is the same list, through any number of lives."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cluster.env import RealEnv
from cluster.ports import Env
from cluster.storage import Entry, Storage, open_storage
from cluster.storage.record import RECORD_BYTES

from .simdisk import SimDisk
from .simenv import SimEnv

COMMANDS = st.binary(max_size=30) | st.integers(0, 700).map(bytes)


class JournalMachine(RuleBasedStateMachine):
    """Any order of the list's operations against a plain list. A snapshot at the head makes any head legal."""

    def __init__(self) -> None:
        super().__init__()
        self.model: list[Entry] = []
        self.covered = 0

    def outside(self) -> tuple[Env, str | None, Callable[[], None]]:
        raise AssertionError("of the class that says where the journal lives")

    def end_outside(self) -> None:
        """What a life leaves to be cleaned up."""

    @initialize()
    def begin(self) -> None:
        self.env, self.directory, self.settle = self.outside()
        self.open()
        self.storage.meta.save(term=1 << 32)

    def open(self) -> None:
        self.storage: Storage = open_storage(self.env, self.directory, "fsync", segment_bytes=1024)
        self.journal = self.storage.journal

    @rule(commands=st.lists(COMMANDS, min_size=1, max_size=4), term=st.integers(0, 1 << 32))
    def add(self, commands: list[bytes], term: int) -> None:
        for command in commands:
            index = self.model[-1][1] + 1 if self.model else self.covered + 1
            self.journal.add(command, index, term)
            self.model.append((command, index, term))

    @rule(data=st.data())
    def delete_from(self, data: st.DataObject) -> None:
        pos = data.draw(st.integers(0, len(self.model)))
        if not self.model or self.model[0][1] + pos <= self.covered + 1:
            return  # Nothing that a snapshot covers is ever in conflict.
        self.journal.deleteEntriesFrom(pos)
        del self.model[pos:]

    @rule(data=st.data())
    def delete_to(self, data: st.DataObject) -> None:
        if self.model:
            pos = data.draw(st.integers(0, len(self.model) - 1))
            _, index, term = self.model[pos]
            self.save(index, term)
            self.journal.deleteEntriesTo(pos)
            del self.model[:pos]

    @rule(beyond=st.integers(2, 50), commands=st.lists(COMMANDS, max_size=3), term=st.integers(0, 1 << 32))
    def reset(self, beyond: int, commands: list[bytes], term: int) -> None:
        index = (self.model[-1][1] if self.model else self.covered) + beyond
        entries = [(command, index + number, term) for number, command in enumerate([b"last", *commands])]
        self.save(index, term)
        self.journal.reset(entries)
        self.model = list(entries)

    def save(self, index: int, term: int) -> None:
        done: list[BaseException | None] = []
        self.storage.snapshots.save(index, term, b"", done.append)
        self.settle()
        assert done == [None]
        self.covered = max(self.covered, index)

    @rule()
    def sync(self) -> None:
        done: list[bool] = []
        self.journal.sync(lambda: done.append(True))
        self.settle()
        assert done == [True]
        assert self.journal.durable_index == (self.model[-1][1] if self.model else 0)

    @rule()
    def second(self) -> None:
        self.journal.onOneSecondTimer()

    @precondition(lambda self: self.directory is not None)
    @rule()
    def reopen(self) -> None:
        self.storage.close()
        self.open()
        assert self.journal.durable_index == (self.model[-1][1] if self.model else 0)

    @invariant()
    def same_list(self) -> None:
        model, journal = self.model, self.journal
        assert journal[:] == model
        assert len(journal) == len(model)
        assert journal[1:3] == model[1:3]
        assert journal.size_bytes == sum(RECORD_BYTES + len(command) for command, _, _ in model)
        assert journal.getRaftCommitIndex() == (model[0][1] if model else 1)
        if model:
            assert journal[0] == model[0]
            assert journal[-1] == model[-1]

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            self.storage.close()
            self.end_outside()


class InMemory(JournalMachine):
    def outside(self) -> tuple[Env, str | None, Callable[[], None]]:
        env = SimEnv(SimDisk(), random.Random(1))
        return env.port, None, env.run


class OnSimDisk(JournalMachine):
    def outside(self) -> tuple[Env, str | None, Callable[[], None]]:
        env = SimEnv(SimDisk(), random.Random(1))
        return env.port, "data", env.run


class OnThisDisk(JournalMachine):
    def outside(self) -> tuple[Env, str | None, Callable[[], None]]:
        self.loop = asyncio.new_event_loop()
        self.real = RealEnv(self.loop)
        self.path = Path(tempfile.mkdtemp())
        return self.real, str(self.path / "data"), self.wait

    def wait(self) -> None:
        """Until the disk thread has done what it has, and what came of it."""
        for _ in range(3):
            passed = asyncio.Event()
            self.real.on_disk_thread(lambda: None, lambda error, passed=passed: passed.set())  # type: ignore[misc]
            self.loop.run_until_complete(passed.wait())

    def end_outside(self) -> None:
        self.real.close()
        self.loop.close()
        shutil.rmtree(self.path)


@pytest.mark.parametrize(
    ("machine", "examples"), [pytest.param(InMemory, 40, marks=pytest.mark.fast), (OnSimDisk, 60), (OnThisDisk, 8)]
)
def test_it_is_the_same_list_everywhere(machine: type[JournalMachine], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.fast
def test_an_entry_that_does_not_follow_is_refused_and_changes_nothing() -> None:
    storage = open_storage(SimEnv(SimDisk(), random.Random(1)).port, None, "memory")
    storage.journal.add(b"a", 7, 1)
    with pytest.raises(ValueError, match="entry 9 cannot follow entry 7"):
        storage.journal.add(b"b", 9, 1)
    with pytest.raises(ValueError, match="entry 5 cannot follow entry 3"):
        storage.journal.reset([(b"", 3, 1), (b"", 5, 1)])
    assert storage.journal[:] == [(b"a", 7, 1)]
    storage.journal.deleteEntriesFrom(0)
    with pytest.raises(ValueError, match="entry 8 cannot follow entry 6"):
        storage.journal.add(b"c", 8, 1)
    storage.journal.add(b"c", 7, 2)
    assert storage.journal[:] == [(b"c", 7, 2)]


@pytest.mark.fast
def test_cleared_it_takes_any_index() -> None:
    drive = SimDisk()
    env = SimEnv(drive, random.Random(1))
    storage = open_storage(env.port, "data", "fsync", segment_bytes=1024)
    storage.journal.add(b"a", 1, 0)
    storage.journal.clear()
    assert len(storage.journal) == 0
    assert storage.journal.durable_index == 0
    storage.close()
    storage = open_storage(env.port, "data", "fsync", segment_bytes=1024)
    assert len(storage.journal) == 0
    storage.journal.add(b"a", 1, 0)
    assert storage.journal[:] == [(b"a", 1, 0)]


@pytest.mark.fast
def test_term_and_vote_are_metas() -> None:
    storage = open_storage(SimEnv(SimDisk(), random.Random(1)).port, None, "memory")
    storage.journal.setCurrentTerm(4, "a")
    assert (storage.meta.term, storage.meta.voted_for) == (4, "a")
    assert (storage.journal.getCurrentTerm(), storage.journal.getVotedForNodeId()) == (4, "a")
    storage.journal.setCurrentTerm(5, None)
    assert storage.journal.getVotedForNodeId() is None


@pytest.mark.fast
def test_the_commit_index_is_never_kept() -> None:
    storage = open_storage(SimEnv(SimDisk(), random.Random(1)).port, None, "memory")
    assert storage.journal.getRaftCommitIndex() == 1
    storage.journal.reset([(b"", 7, 1), (b"", 8, 1)])
    storage.journal.setRaftCommitIndex(8)
    assert storage.journal.getRaftCommitIndex() == 7
