"""Bytes become frames, however they are cut; and nothing comes after a close."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.codec import frame
from cluster.env import RealEnv
from cluster.net.peer import PING, FrameSink, PeerStream
from cluster.ports import Hello
from tests.net.support import quick

pytestmark = pytest.mark.fast

HELLO = Hello("peer", "b:1", b"B" * 16)


class Transport:
    """Just enough of one: remembers what was written and how it ended."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.aborted = False

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.aborted = True


def stream(on_frame: Any) -> PeerStream:
    loop = asyncio.new_event_loop()
    env = RealEnv(loop)
    loop.close()
    # Nothing here waits, so that the loop's turn never comes.
    env.call_soon = lambda fn, *args: None  # type: ignore[assignment, method-assign]
    sink = FrameSink()
    sink.on_frame = on_frame
    made = PeerStream(env, HELLO, sink, lambda ended, reason: None)
    made.attach(Transport())  # type: ignore[arg-type]
    return made


@quick
@given(st.lists(st.binary(max_size=40), max_size=12), st.data())
def test_however_bytes_are_cut_the_same_frames_come(payloads: list[bytes], data: st.DataObject) -> None:
    got: list[bytes] = []
    reader = stream(lambda peer, payload: got.append(payload))
    rest = b"".join(frame(payload) for payload in payloads)
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        reader.data_received(rest[:size])
        rest = rest[size:]
    # An empty frame is a sign of life and never delivered.
    assert got == [payload for payload in payloads if payload]
    assert reader.reason is None


@quick
@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_are_frames_or_the_end(junk: bytes, size: int) -> None:
    got: list[bytes] = []
    reader = stream(lambda peer, payload: got.append(payload))
    for start in range(0, len(junk), size):
        reader.data_received(junk[start : start + size])
    assert all(payload in junk for payload in got)


def test_nothing_is_delivered_after_a_close_within_a_delivery() -> None:
    got: list[bytes] = []

    def deliver(peer: str, payload: bytes) -> None:
        got.append(payload)
        reader.close("enough")

    reader = stream(deliver)
    reader.data_received(frame(b"a") + frame(b"b") + frame(b"c"))
    reader.data_received(frame(b"d"))
    assert got == [b"a"]
    assert not reader.write(PING)
    assert reader.transport.aborted


def test_the_first_reason_is_the_reason() -> None:
    reader = stream(lambda peer, payload: None)
    reader.close("first")
    reader.close("second")
    reader.connection_lost(None)
    assert reader.reason == "first"
