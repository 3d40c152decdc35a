"""Random scripts of batches, and a stage on which they are played to several tables at once.

Knows: what makes trouble (few names, few ids, times near deadlines, bytes that are not operations). Must not know: the rules.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Protocol

from cluster import limits
from tests.table.invariants import Witness
from tests.table.packing import batch, decode_all, pack, pack_anyhow

DELAYS_MS = [0] * 10 + [1, 1, 5, 10, 20, 20, 50, 50, 99, 100, 101, 300, 1_000, 30_000]
LEASES_MS = [100, 100, 150, 300, 1_000, 5_000]
TTLS_MS = [100, 300, 1_000, 5_000, 60_000, 60_000]
LEADERS = [1, 1, 1, 2, 3, 1024]
NO_OPERATIONS = [
    b"\xc1",
    b"\x81\x01\x02",
    b"\xa1a",
    b"\xca\0\0\0\0",
    b"\x91\xd0\x0a",
    b"\xd4\0\0",
    b"\xdd\xff\xff\xff\xff",
    b"\x0a",
]


class Machine(Protocol):
    """A lease table, or a model of one."""

    def apply(self, batch: bytes, /) -> tuple[bytes, bytes]: ...
    def snapshot(self) -> bytes: ...
    def restore(self, data: bytes, /) -> None: ...


@dataclass
class Author:
    """Writes batches. All choices come from ``rng``, so that a seed, or a shrinking search, is the script."""

    rng: random.Random
    names: int = 3
    ids: int = 4
    ops_max: int = 5
    records: int = 20  # of a hundred operations, so many write records
    candidates: int = 15  # and so many are about candidates
    stamp: int = 0
    epoch: int = 0
    tokens: list[tuple[bytes, bytes, int]] = field(default_factory=list)  # (id, name, token), the newest last
    sessions: list[int] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)  # given to records lately, the newest last
    writes: list[list[Any]] = field(default_factory=list)  # asked lately, to be asked again
    revisions: dict[bytes, int] = field(default_factory=dict)  # of the names' rosters, as heard last

    def next_batch(self) -> bytes:
        rng = self.rng
        kind = rng.randrange(20)
        if kind == 0:
            return self._odd_batch()
        if kind == 1 or self.epoch == 0:
            epoch = self.epoch + rng.choice([1, 1, 1, 0, -1]) if self.epoch else 1
            self.asked = [[8]]
            data = batch(self.asked, self.stamp + rng.choice([0, 1_000]), epoch)
            self.epoch = max(self.epoch, epoch)
            return data
        self.stamp += rng.choice(DELAYS_MS)
        stamp = (
            self.stamp
            if rng.randrange(20)
            else rng.choice([0, -1, self.stamp - 500, limits.STAMP_MAX_MS + 1, 2**63 - 1, -(2**63)])
        )
        self.asked = [self.operation() for _ in range(rng.randint(0, self.ops_max))]
        encoded = [pack(op) if rng.randrange(8) else pack_anyhow(op, rng) for op in self.asked]
        if rng.randrange(12) == 0 and encoded:
            encoded[rng.randrange(len(encoded))] = self._spoiled(rng.choice(encoded))
            self.asked = []  # The answers may not be to what was meant.
        return batch(encoded, stamp, self.epoch + (rng.choice([-1, 1]) if rng.randrange(25) == 0 else 0))

    def heard(self, replies: bytes) -> None:
        """Learn tokens and sessions, to be asked about later."""
        for asked, answer in zip(self.asked, decode_all(replies), strict=False):
            if isinstance(asked, list) and asked[:1] == [19] and answer[0] == 10:
                self.revisions[asked[2]] = answer[1]
            if answer[0] != 0 or not isinstance(asked, list):
                continue
            if asked[0] == 1:
                self.tokens.append((asked[1], asked[2], answer[1]))
            elif asked[0] == 2:
                self.tokens.extend((asked[1], name, grant[0]) for name, grant in zip(asked[2], answer[1], strict=True))
            elif asked[0] == 12:
                self.sessions.append(answer[1])
            elif asked[0] == 31 and self.rng.randrange(4):
                self.stamp += answer[1]  # Else little would be granted in the rest of the script.
            elif asked[0] in (16, 17):
                self.revisions[asked[1]] = answer[1]
            elif asked[0] == 19:
                self.tokens.append((asked[1], asked[2], answer[1]))
                self.revisions[asked[2]] = answer[1]
            elif asked[0] in (14, 15):
                self.versions.append(answer[1])
        del self.tokens[:-12], self.sessions[:-5], self.versions[:-6], self.writes[:-6]

    def operation(self) -> list[Any]:
        rng = self.rng
        if self.records and rng.randrange(100) < self.records:
            return self._write()
        if self.candidates and rng.randrange(100) < self.candidates:
            return self._stand()
        kind = rng.randrange(100)
        if kind < 28:
            return [1, self._id(), self._name(), *self._terms()]
        if kind < 37:
            names = [self._name() for _ in range(rng.randint(1, 3))]
            return [2, self._id(), names if rng.randrange(8) == 0 else sorted(set(names)), *self._terms()]
        if kind < 47:
            return [3, *self._holding(), rng.choice([*LEASES_MS, 20_000, 99, limits.LEASE_MAX_MS + rng.randrange(2)])]
        if kind < 55:
            return [4, self._session()]
        if kind < 68:
            return [5, *self._holding(), rng.choice([0, 1, 1, 2, 3, 4, 5])]
        if kind < 73:
            return [6, self._id(), self._name()]
        if kind < 80:
            return [7, self._name(), rng.choice([None, None, 0, 1, 2, 1023, 1024]), rng.randrange(3) == 0]
        if kind < 86:
            return [12, rng.choice(LEASES_MS), self._node()]
        if kind < 92:
            return [13, *self._holding()]
        if kind == 99 and rng.randrange(2):
            return [31, rng.choice([0, 0, 200, limits.LEASE_MAX_MS + 1])]
        others: list[list[Any]] = [
            [8], [9, rng.choice([0, 1, 1, 256, 2**64 - 1])], [10],
            [11, rng.choice([b"c" * 16, b"d" * 16, b""]), rng.choice([0, 5_000, 2**50])],
            [0], [20], [], [1], [10, 1],
        ]  # fmt: skip
        return rng.choice(others[:4] if rng.randrange(4) else others)

    def _stand(self) -> list[Any]:
        """Something about candidates: mostly of names that have some, mostly with the revision that was heard last."""
        rng = self.rng
        kind, name, node = rng.randrange(20), self._name(), rng.choice([b"host:1", b"host:1", b"host:2", b"host:3"])
        if rng.randrange(40) == 0:
            return rng.choice(
                [[16], [16, name, b"", 100, b""], [18, name, b"x" * 256], [17, name, node, 99], [19, bytes(16), name]]
            )
        if kind < 6:
            return [16, name, node, rng.choice(TTLS_MS), rng.choice([b"", b"info", b"info", b"x" * 30])]
        if kind < 8:
            return [17, name, node, rng.choice(TTLS_MS)]
        if kind < 9:
            return [18, name, node]
        if kind < 13:
            # What was granted is over soon, so that it is counted.
            return [5, *(self.tokens[-1] if self.tokens else self._holding()), rng.choice([0, 1, 1, 2, 3, 4])]
        terms = self._terms()
        if rng.randrange(10):
            terms[4] = node
        revision = self.revisions.get(name, 0) + (0 if rng.randrange(12) else rng.choice([-1, 1]))
        place = rng.choice([0, 0, 0, 1, 2, 1023, 1024])
        claim = [
            max(revision, 0),
            rng.choice([1, 1, 2, 2, 3]),
            place,
            rng.choice([0, 50, 100, 604_800_000, 604_800_001]),
        ]
        return [19, self._id(), name, *terms, *claim]

    def _write(self) -> list[Any]:
        """A write of a record, often one that was asked before."""
        rng = self.rng
        if self.writes and rng.randrange(4) == 0:
            write = list(rng.choice(self.writes))
            # What is known grows with time: an honest number is older than the write, another one may not be.
            write[-1] = rng.choice([None, write[-1], 0, self._number()])
            return write
        key = b"k%d" % rng.randrange(3) if rng.randrange(40) else self._name()
        name, token = b"", 0
        if self.tokens and rng.randrange(4):
            _, name, token = self._holding()
            if rng.randrange(8) == 0:
                name = self._name()
        elif rng.randrange(30) == 0:
            token = 1
        expected = rng.choice([None, None, None, None, 0, self._number()])
        if rng.randrange(60) == 0:
            return rng.choice([[14], [15, b""], [14, bytes(16), key, b"v", name, token, expected]])
        write_id = rng.randrange(2**64).to_bytes(16, "big") if rng.randrange(40) else b"short"
        value = [rng.choice([b"", b"v", b"value", b"x" * 30])]
        write = [14, write_id, key, *value, name, token, expected, None]
        if rng.randrange(4) == 0:
            write = [15, write_id, key, name, token, expected, None]
        self.writes.append(write)
        return write

    def _number(self) -> int:
        return self.rng.choice([*self.versions, *(token for _, _, token in self.tokens[-2:]), 0, 2**64 - 1])

    def _terms(self) -> list[Any]:
        rng = self.rng
        lease_ms = rng.choice(LEASES_MS)
        session = self._session() if rng.randrange(2) else 0
        terms = [
            lease_ms,
            rng.choice(LEADERS),
            rng.choice([0, 0, 50, lease_ms]),
            session,
            self._node(),
            rng.choice([b"", b"", b"meta"]),
        ]
        if rng.randrange(15) == 0:
            terms[rng.randrange(6)] = rng.choice([0, 2**64 - 1, 10**7, b"x" * 256, b"x" * 4_097, 1_025])
        return terms

    def _id(self) -> bytes:
        return bytes([self.rng.randrange(self.ids)]) * (16 if self.rng.randrange(40) else 15)

    def _name(self) -> bytes:
        if self.rng.randrange(40) == 0:
            return self.rng.choice([b"", b"-a", b"a b", b"a" * 256, b"\xff", b"a\n"])
        return b"n%d" % self.rng.randrange(self.names)

    def _node(self) -> bytes:
        return self.rng.choice([b"", b"host:1", b"host:2"])

    def _session(self) -> int:
        return (
            self.rng.choice([*self.sessions, 0, 7, 2**64 - 1])
            if self.rng.randrange(5) == 0 or not self.sessions
            else self.sessions[-1]
        )

    def _holding(self) -> list[Any]:
        """Mostly what was granted lately; sometimes with something wrong."""
        if not self.tokens:
            return [self._id(), self._name(), self.rng.randrange(4)]
        acq_id, name, token = self.rng.choice(self.tokens)
        wrong = self.rng.randrange(12)
        if wrong == 0:
            acq_id = self._id()
        elif wrong == 1:
            name = self._name()
        elif wrong == 2:
            token = self.rng.choice([token - 1, token + 1, 0, 2**64 - 1])
        return [acq_id, name, max(token, 0)]

    def _spoiled(self, operation: bytes) -> bytes:
        rng = self.rng
        how = rng.randrange(4)
        if how == 0:
            return operation[: rng.randrange(len(operation))]
        if how == 1:
            at = rng.randrange(len(operation))
            return operation[:at] + bytes([rng.randrange(256)]) + operation[at + 1 :]
        if how == 2:
            return rng.choice(NO_OPERATIONS)
        return operation + operation

    def _odd_batch(self) -> bytes:
        """Bytes whose header is wrong, or says more or less than there is."""
        rng = self.rng
        self.asked = []
        how = rng.randrange(4)
        if how == 0:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(40)))
        data = bytearray(batch([[10], [10], [10]], self.stamp, self.epoch))
        if how == 1:
            data[rng.randrange(4)] = rng.randrange(256)
        elif how == 2:
            data[4:8] = rng.choice([0, 2, 4, 6, 7, 2**32 - 1]).to_bytes(4, "little")
        else:
            del data[rng.randrange(len(data)) :]
        return bytes(data)


class Stage:
    """Machines that must agree about everything, with a witness beside them."""

    def __init__(self, machines: list[Machine], sweep_max: int = limits.SWEEP_MAX_PER_BATCH) -> None:
        self.machines = machines
        self.witness = Witness(machines[0].snapshot(), sweep_max)

    def play(self, data: bytes) -> tuple[bytes, bytes]:
        first, *others = self.machines
        replies, events = first.apply(data)
        snapshot = first.snapshot()
        for other in others:
            their_replies, their_events = other.apply(data)
            assert decode_all(their_replies) == decode_all(replies), f"answers differ for {data.hex()}"
            assert decode_all(their_events) == decode_all(events), f"events differ for {data.hex()}"
            assert (their_replies, their_events) == (replies, events), "equal in meaning, not in bytes"
            assert other.snapshot() == snapshot, f"I6: states differ after {data.hex()}"
        self.witness.saw(data, replies, events, snapshot)
        return replies, events

    def restore(self, which: int) -> None:
        """Replace one machine's state by its own snapshot: nothing may change, now or later (I6)."""
        machine = self.machines[which]
        snapshot = machine.snapshot()
        if self.witness.before.level > 1:
            return  # A spoiled byte made it a level that this code does not know: it must not be loaded.
        machine.restore(snapshot)
        assert machine.snapshot() == snapshot, "I6: restore(snapshot()) is not the identity"


def perform(stage: Stage, author: Author, batches: int) -> None:
    """Play a script; restore one of the machines now and then."""
    for _ in range(batches):
        replies, _ = stage.play(author.next_batch())
        author.heard(replies)
        if author.rng.randrange(6) == 0:
            stage.restore(author.rng.randrange(len(stage.machines)))
