"""Random programs of feeds, seals, drops and refusals: the compiled intake and the model agree on every byte.

Knows: both implementations' common contract. Must not know: sockets, the lease table.
"""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cluster._wire import FrameReader, Intake, Sealed, WireError
from tests.wire.frames import EPOCH, acquire, cut, encoded_operations, encoded_request, request
from tests.wire.model import ModelIntake, ModelReader, ModelSealed

FRAME_MAX = 5000
CONNECTIONS = 4

_answers = st.one_of(
    st.just([2]),
    st.tuples(st.just(0), st.integers(0, 2**53), st.integers(0, 3), st.integers(0, 2**31), st.booleans()).map(list),
    st.tuples(st.just(1), st.binary(max_size=300), st.integers(0, 2**40)).map(list),
)


class WireMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        # Small limits, so that a short program meets each of them.
        shape: dict[str, Any] = {"level": 1, "max_ops": 5, "max_bytes": 700, "queue_max": 8}
        self.intake = Intake(**shape)
        self.model = ModelIntake(**shape)
        self.next_conn = 0
        self.sealed: list[tuple[Sealed, ModelSealed]] = []
        self.pairs = [self.connect() for _ in range(CONNECTIONS)]
        self.intake.epoch = self.model.epoch = EPOCH

    def connect(self) -> tuple[FrameReader, ModelReader]:
        self.next_conn += 1
        return FrameReader(self.intake, self.next_conn, FRAME_MAX), ModelReader(self.model, self.next_conn, FRAME_MAX)

    def feed(self, which: int, data: bytes) -> None:
        reader, model = self.pairs[which]
        expected = model.feed(data)
        if expected is None:
            with pytest.raises(WireError):
                reader.feed(data)
            self.reconnect(which)
        else:
            assert reader.feed(data) == expected

    @rule(which=st.integers(0, CONNECTIONS - 1))
    def reconnect(self, which: int) -> None:
        conn_id = self.pairs[which][1].conn_id
        assert self.intake.drop(conn_id) == self.model.drop(conn_id)
        self.pairs[which] = self.connect()

    @rule(
        which=st.integers(0, CONNECTIONS - 1),
        ops=st.lists(encoded_operations(), max_size=6),
        rid=st.sampled_from([0, 1, 127, 128, 255, 256, 65_536, 2**32, 2**64 - 9]),
        epoch=st.sampled_from([EPOCH, EPOCH, EPOCH, EPOCH, 0, EPOCH + 1]),
        places=st.lists(st.integers(0, 400), max_size=4),
    )
    def requests(self, which: int, ops: list[bytes], rid: int, epoch: int, places: list[int]) -> None:
        stream = b"".join(encoded_request(rid + i, epoch, op) for i, op in enumerate(ops))
        for piece in cut(stream, places):
            self.feed(which, piece)

    @rule(which=st.integers(0, CONNECTIONS - 1), name=st.sampled_from([b"job", b"a", b"b/c"]), count=st.integers(1, 9))
    def good_requests(self, which: int, name: bytes, count: int) -> None:
        self.feed(which, b"".join(request(rid + 1, acquire(name)) for rid in range(count)))

    @rule(which=st.integers(0, CONNECTIONS - 1), count=st.integers(1, 20))
    def renewals(self, which: int, count: int) -> None:
        self.feed(which, b"".join(request(rid + 1, [4, rid]) for rid in range(count)))

    @rule(which=st.integers(0, CONNECTIONS - 1), data=st.binary(max_size=40))
    def garbage(self, which: int, data: bytes) -> None:
        self.feed(which, data)

    @rule(which=st.integers(0, CONNECTIONS - 1), data=st.binary(min_size=1, max_size=40))
    def framed_garbage(self, which: int, data: bytes) -> None:
        self.feed(which, len(data).to_bytes(4, "big") + data)

    @rule(size=st.integers(0, 900), ticket=st.integers(1, 2**40))
    def slow(self, size: int, ticket: int) -> None:
        operation = msgpack.packb([2, b"x" * size])
        self.intake.add(operation, ticket)
        self.model.add(operation, ticket)

    @rule(names=st.sets(st.sampled_from([b"job", b"a", b"b/c"])))
    def wait_for(self, names: set[bytes]) -> None:
        self.intake.waited.clear()
        self.intake.waited.update(names)
        self.model.waited = names

    @rule(stamp_ms=st.integers(-(2**40), 2**60))
    def seal(self, stamp_ms: int) -> None:
        self.keep(self.intake.seal(stamp_ms), self.model.seal(stamp_ms))

    @rule()
    def take_all(self) -> None:
        self.keep(self.intake.take_all(), self.model.take_all())

    def keep(self, sealed: Sealed | None, expected: ModelSealed | None) -> None:
        assert (sealed is None) == (expected is None)
        if sealed is not None and expected is not None:
            assert sealed.batch == expected.batch
            assert sealed.count == expected.count
            self.sealed.append((sealed, expected))

    @precondition(lambda self: self.sealed)
    @rule(data=st.data())
    def route(self, data: st.DataObject) -> None:
        sealed, expected = self.sealed.pop(0)
        answers = [msgpack.packb(data.draw(_answers)) for _ in range(expected.count)]
        assert sealed.route(b"".join(answers)) == expected.route(answers)
        assert sealed.refuse(answers[0]) == expected.route([answers[0]] * expected.count)

    @invariant()
    def same_queue(self) -> None:
        assert self.intake.queued == self.model.queued
        assert self.intake.takes(True) == self.model.takes(True)
        assert self.intake.takes(False) == self.model.takes(False)


WireMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestWire = pytest.mark.fast(WireMachine.TestCase)
