"""Random lives of a storage, and what may be left of them after a crash.

Knows: the contract of ``cluster.storage``, as a model: a list that changes by steps, of which those before the last answered ``sync`` are
durable. Must not know: files, formats.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from cluster.storage import Durability, Entry, Storage, open_storage

from .simdisk import SimDisk
from .simenv import SimEnv

SEGMENT_BYTES = 4096

Snap = tuple[int, int, bytes]


@dataclass
class Model:
    """What the log was after each step (``steps[-1]``: now), and how much of everything is durable."""

    steps: list[list[Entry]] = field(default_factory=lambda: [[]])
    settled: int = 0
    metas: list[dict[str, object]] = field(default_factory=lambda: [{"term": 0, "voted_for": None, "joined": False}])
    snapshot: Snap | None = None
    saving: list[Snap] = field(default_factory=list)
    durable: list[Entry] = field(default_factory=list)

    @property
    def log(self) -> list[Entry]:
        return self.steps[-1]

    @property
    def covered(self) -> int:
        return self.snapshot[0] if self.snapshot else 0

    @property
    def saved_up_to(self) -> int:
        return max([self.covered, *(snap[0] for snap in self.saving)])

    def step(self, log: list[Entry]) -> None:
        self.steps.append(log)

    def settle(self, steps: int) -> None:
        self.settled = max(self.settled, steps)


class Story:
    """One storage and its model, moved by random steps that an engine might take."""

    def __init__(self, drive: SimDisk, seed: int, durability: Durability, model: Model | None = None) -> None:
        self.drive = drive
        self.rng = random.Random(seed)
        self.durability = durability
        self.model = model or Model()
        self.errors: list[BaseException] = []
        self.snapshot_errors: list[BaseException] = []
        self.open()

    def open(self) -> None:
        self.env = SimEnv(self.drive, self.rng)
        self.storage: Storage = open_storage(self.env.port, "data", self.durability, segment_bytes=SEGMENT_BYTES)
        self.storage.journal.on_error = self.errors.append

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.move()
            self.look()

    def look(self) -> None:
        """What holds at every moment."""
        journal, model = self.storage.journal, self.model
        assert journal[:] == model.log
        assert len(journal) == len(model.log)
        durable = journal.durable_index
        model.durable = [entry for entry in model.log if entry[1] <= durable]
        if self.durability == "process":
            return
        proven = model.steps[model.settled]
        common = {entry[1]: entry for entry in proven}
        # Nothing that an answered sync covered, and that is still in the log, may count as not durable.
        for entry in model.log:
            if common.get(entry[1]) is entry:
                assert entry[1] <= durable

    def move(self) -> None:
        moves = (
            self.add,
            self.add,
            self.add,
            self.sync,
            self.sync,
            self.work,
            self.work,
            self.turn,
            self.turn,
            self.cut,
        )
        rare = (self.term, self.snapshot, self.compact, self.compact, self.install, self.second, self.reopen)
        self.rng.choice(rare if self.rng.random() < 0.15 else moves)()

    # The engine's moves.

    def add(self) -> None:
        journal, model = self.storage.journal, self.model
        for _ in range(self.rng.randint(1, 3)):
            size = self.rng.choice((0, 1, 7, 60, 300, 900, 1500))
            index = model.log[-1][1] + 1 if model.log else 1
            entry = (self.rng.randbytes(size), index, self.storage.meta.term)
            journal.add(*entry)
            model.step([*model.log, entry])

    def sync(self) -> None:
        steps = len(self.model.steps) - 1
        self.storage.journal.sync(lambda: self.model.settle(steps))

    def work(self) -> None:
        if self.env.waiting:
            self.env.work()

    def turn(self) -> None:
        self.env.turn()

    def cut(self) -> None:
        """A conflict; never at or below a snapshot, which holds only what is committed."""
        log = self.model.log
        uncommitted = [pos for pos, entry in enumerate(log) if entry[1] > self.model.saved_up_to and pos > 0]
        if uncommitted:
            pos = self.rng.choice(uncommitted)
            self.storage.journal.deleteEntriesFrom(pos)
            self.model.step(log[:pos])

    def term(self) -> None:
        term = self.storage.meta.term + 1
        vote = self.rng.choice((None, "a", "b"))
        self.model.metas.append({"term": term, "voted_for": vote, "joined": True})
        self.storage.meta.save(term=term, voted_for=vote, joined=True)
        del self.model.metas[:-1]

    def snapshot(self) -> None:
        log = [entry for entry in self.model.log if entry[1] >= self.model.saved_up_to]
        if log:
            _, index, term = self.rng.choice(log)
            self._save((index, term, self.rng.randbytes(self.rng.choice((0, 100, 3000)))), None)

    def install(self) -> None:
        """A leader's snapshot, beyond the end of this log or in conflict with it; the log begins anew when it is durable."""
        model = self.model
        index = (model.log[-1][1] if model.log else 0) + self.rng.randint(2, 9)
        term = self.storage.meta.term
        if not model.saving:
            self._save(
                (index, term, b"from the leader %d" % index), [(b"before", index - 1, term), (b"last", index, term)]
            )

    def _save(self, snap: Snap, reset_to: list[Entry] | None) -> None:
        model = self.model
        model.saving.append(snap)

        def done(error: BaseException | None) -> None:
            if error is not None:
                # It may be there after the next start all the same, whole: its last step may be what failed.
                self.snapshot_errors.append(error)
                return
            model.saving.remove(snap)
            if snap[0] > model.covered:
                model.snapshot = snap
            if reset_to is not None and not holds(model.log, snap):
                self.storage.journal.reset(reset_to)
                model.step(reset_to)

        self.storage.snapshots.save(*snap, done)

    def compact(self) -> None:
        """Drop what the snapshot covers, but for its own entry."""
        log = self.model.log
        covered = [pos for pos, entry in enumerate(log) if entry[1] <= self.model.covered]
        if covered:
            pos = self.rng.choice(covered)
            self.storage.journal.deleteEntriesTo(pos)
            if pos:
                self.model.step(log[pos:])

    def second(self) -> None:
        self.storage.journal.onOneSecondTimer()

    def reopen(self) -> None:
        self.close()
        self.open()
        self.check()

    def close(self) -> None:
        self.storage.close()
        if not self.drive.faults:
            self.model.settle(len(self.model.steps) - 1)

    # After the end of a life.

    def check(self) -> None:
        """What was opened is what some moment since the last answered sync left; the model goes on from there."""
        storage, model = self.storage, self.model
        meta: dict[str, object] = {
            "term": storage.meta.term,
            "voted_for": storage.meta.voted_for,
            "joined": storage.meta.joined,
        }
        assert meta in model.metas
        snapshot = storage.snapshots.latest()
        assert snapshot in (model.snapshot, *model.saving)
        assert storage.snapshots.index == (snapshot[0] if snapshot else 0) >= model.covered
        found = storage.journal[:]
        allowed = [after_open(log, snapshot) for log in model.steps[model.settled :]]
        assert found in allowed, f"{brief(found)} is none of {[brief(log) for log in allowed]}"
        # What ``durable_index`` covered is there, unless a later step, or the snapshot, took it away.
        for entry in [entry for entry in model.durable if entry not in found]:
            assert any(
                entry not in log and after_open(log, snapshot) == found for log in model.steps[model.settled :]
            ) or (snapshot is not None and found[0][1] >= min(entry[1], snapshot[0]))
        assert storage.journal.durable_index == (found[-1][1] if found else 0)
        self.model = Model([found], metas=[meta], snapshot=snapshot)


def after_open(log: list[Entry], snapshot: Snap | None) -> list[Entry]:
    """What opening makes of a log: if it does not reach the snapshot it begins there."""
    if snapshot is None:
        return log
    index, term, _ = snapshot
    if log and log[0][1] > index:
        return log
    return log if holds(log, snapshot) else [(b"", index, term)]


def holds(log: list[Entry], snapshot: Snap) -> bool:
    """Whether the log has the entry that the snapshot was made at."""
    return any(entry[1:] == snapshot[:2] for entry in log)


def brief(log: list[Entry]) -> str:
    return f"{log[0][1:]}..{log[-1][1:]}" if log else "nothing"
