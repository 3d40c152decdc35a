"""Who watches, and what each of them has seen.

Knows: the request WATCH of docs/protocol.md: it waits until there is something to tell. Must not know: how events are kept, sockets.

Nothing is queued for a watcher: it asks again from the last number that it has seen. One that is slow finds, when it asks, that older
events are gone, and costs the node nothing meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cluster.codec import pack
from cluster.limits import WATCHERS_MAX
from cluster.opcodes import Status
from cluster.ports import Env
from cluster.server import answers
from cluster.server.events import Events, Page

# For how long watchers may keep the loop from everything else.
SLICE_S: Final = 0.002


@dataclass(eq=False)
class Watcher:
    """One request that waits. ``seen``: the number of the last event that was looked at for it."""

    rid: int
    prefix: bytes
    extended: bool
    seen: int


def _answer(page: Page) -> bytes:
    return pack([int(Status.OK), page.first, page.last, page.rows])


class Watches:
    """The requests that wait for events, the one that was looked after longest ago first. ``reply(connection, request number, answer)``."""

    def __init__(self, env: Env, events: Events, reply: Callable[[int, int, bytes], None]) -> None:
        self._env = env
        self._events = events
        self._reply = reply
        self._waiting: OrderedDict[tuple[int, bytes], Watcher] = OrderedDict()
        self._of_connection: dict[int, set[bytes]] = {}
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, number: int, rid: int, operation: list[Any]) -> bytes | None:
        """The answer, or None if it comes later."""
        _, watch_id, prefix, after, extended = operation
        events = self._events
        if after is None:
            return _answer(Page(events.next, events.next - 1, []))
        page = events.page(after, prefix, extended=extended)
        if page.rows or page.first != after + 1:
            return _answer(page)
        if len(self._waiting) >= WATCHERS_MAX:
            return answers.overloaded("WATCHERS_MAX")
        key = (number, watch_id)
        if key in self._waiting:
            return answers.bad_request("this watch waits already")
        self._waiting[key] = Watcher(rid, prefix, extended, page.last)
        self._of_connection.setdefault(number, set()).add(watch_id)
        self._waiting.move_to_end(key, last=page.last + 1 == events.next)
        self.happened()
        return None

    def cancel(self, number: int, watch_id: bytes) -> None:
        if (number, watch_id) in self._waiting:
            self._tell((number, watch_id), answers.CANCELLED)

    def drop_connection(self, number: int) -> None:
        for watch_id in self._of_connection.pop(number, ()):
            del self._waiting[number, watch_id]

    def end_reign(self, refusal: bytes) -> None:
        """Who watches asks the next raft leader, from where it is."""
        while self._waiting:
            self._tell(next(iter(self._waiting)), refusal)

    def _tell(self, key: tuple[int, bytes], answer: bytes) -> None:
        number, watch_id = key
        watcher = self._waiting.pop(key)
        of_connection = self._of_connection[number]
        of_connection.remove(watch_id)
        if not of_connection:
            del self._of_connection[number]
        self._reply(number, watcher.rid, answer)

    def happened(self) -> None:
        """There may be something to tell."""
        if not self._scheduled and self._behind() is not None:
            self._scheduled = True
            self._env.call_soon(self._work)

    def _behind(self) -> tuple[int, bytes] | None:
        """Whose turn it is."""
        key = next(iter(self._waiting), None)
        return key if key is not None and self._waiting[key].seen + 1 != self._events.next else None

    def _work(self) -> None:
        """Tell for a while; the rest is for the next turn of the loop."""
        self._scheduled = False
        until = self._env.clock() + SLICE_S
        while (key := self._behind()) is not None:
            if self._env.clock() >= until:
                self.happened()
                return
            self._look(key)

    def _look(self, key: tuple[int, bytes]) -> None:
        watcher = self._waiting[key]
        page = self._events.page(watcher.seen, watcher.prefix, extended=watcher.extended)
        if page.rows or page.first != watcher.seen + 1:
            self._tell(key, _answer(page))
            return
        watcher.seen = page.last
        if page.last + 1 == self._events.next:
            self._waiting.move_to_end(key)
