"""What connections over sockets and in memory have in common: to whom they deliver, and when.

Knows: the owner's callbacks of ``ports.Connection``. Must not know: where the bytes come from.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from cluster.ports import Env, Hello

# Unique in this process, over sockets or in memory, so that no two connections of a node can be mixed up.
_ids: Final = itertools.count(1)


class Receiver:
    """The receiving half of a ``ports.Connection``: nothing is delivered before the owner has said where, nothing is lost, all in order.

    Attributes:
        id: unique in this process.
        hello: what the dialer said of itself; the same at both ends.
        reason: why it was closed; None while it is open. Once set, nothing more is delivered.
    """

    heard_at: float
    reason: str | None

    def __init__(self, env: Env, hello: Hello) -> None:
        self._call_soon = env.call_soon
        self.id = next(_ids)
        self.hello = hello
        self._early: list[bytes] = []
        self._deliver: Callable[[bytes], None] = self._early.append
        self._on_closed: Callable[[str], None] | None = None
        self._end: str | None = None

    @property
    def on_data(self) -> Callable[[bytes], None]:
        return self._deliver

    @on_data.setter
    def on_data(self, callback: Callable[[bytes], None]) -> None:
        if self._early:
            self._call_soon(self._catch_up, callback)
        else:
            self._deliver = callback

    def _catch_up(self, callback: Callable[[bytes], None]) -> None:
        self._deliver = callback
        data = b"".join(self._early)
        self._early.clear()
        if data and self.reason is None:
            callback(data)

    @property
    def on_closed(self) -> Callable[[str], None]:
        return self._on_closed or self._remember_end

    @on_closed.setter
    def on_closed(self, callback: Callable[[str], None]) -> None:
        self._on_closed = callback
        if self._end is not None:
            self._call_soon(callback, self._end)

    def _remember_end(self, reason: str) -> None:
        self._end = reason
