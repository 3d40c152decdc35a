"""A node's end does not wait for sockets that nobody hears of any more.

Knows: how a socket's life is told to its protocol. Must not know: what is said over it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.env import RealEnv
from cluster.net import stream
from cluster.net.greeting import Greeting
from cluster.net.handshake import NONCE_BYTES, DialerHandshake
from cluster.net.stream import Roster
from cluster.ports import Hello
from tests.net.support import run

pytestmark = pytest.mark.fast


class Closed(asyncio.Transport):
    """A transport that was closed before its protocol was told of it: it says nothing of its end."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def test_a_call_that_was_called_off_while_it_was_being_connected_is_not_waited_for() -> None:
    """uvloop tells a protocol that its connection is made, and never that it is lost, if the call was cancelled in between."""

    async def work(env: RealEnv) -> None:
        roster = Roster()
        handshake = DialerHandshake(Hello("peer", "127.0.0.1:1", b"i" * 16), None, env.entropy(NONCE_BYTES), expect="127.0.0.1:2")
        greeting = Greeting(env, handshake, _never, lambda greeting, refused: None, roster=roster)
        greeting.close("not needed any more", abort=True)
        transport = Closed()
        greeting.connection_made(transport)
        assert transport.aborted
        assert not len(roster)

    run(work)


def test_an_end_waits_for_sockets_and_not_for_ever(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(stream, "EMPTIED_WITHIN_S", 0.05)

    async def work(env: RealEnv) -> None:
        roster = Roster()
        sockets = [Closed(), Closed()]
        for each in sockets:
            roster.add(each)
        waiting = asyncio.ensure_future(roster.emptied())
        roster.discard(sockets[0])
        await waiting
        assert "net.sockets_left count=1" in caplog.text
        roster.discard(sockets[1])
        caplog.clear()
        await roster.emptied()
        assert not caplog.text

    run(work)


def _never(*arguments: Any) -> None:
    raise AssertionError(f"not to be called: {arguments}")
