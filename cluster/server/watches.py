"""Who watches, and what they have seen.

Knows: the request WATCH of docs/protocol.md: it waits until there is something to tell. Must not know: how events are kept, sockets.

Nothing is queued for a watcher: it asks again from the last number that it has seen. One that is slow finds, when it asks, that older
events are gone, and costs the node nothing meanwhile. All who wait for the same names have seen the same, so that an event that is none
of theirs costs one look for all of them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

from cluster.codec import pack
from cluster.limits import WATCHERS_MAX
from cluster.opcodes import Status
from cluster.ports import Env
from cluster.server import answers
from cluster.server.events import Events, Page

# For how long watchers may keep the loop from everything else.
SLICE_S: Final = 0.002

# The connection's number, and the watch's id.
Key = tuple[int, bytes]


class Group:
    """Who waits for the same names. ``seen``: the number of the last event that was looked at for them."""

    __slots__ = ("extended", "prefix", "seen", "waiting")

    def __init__(self, prefix: bytes, extended: bool, seen: int) -> None:
        self.prefix = prefix
        self.extended = extended
        self.seen = seen
        # In the order in which they came.
        self.waiting: dict[Key, None] = {}


def _answer(page: Page) -> bytes:
    return pack([int(Status.OK), page.first, page.last, page.rows])


class Watches:
    """The requests that wait for events. ``reply(connection, request number, answer)``."""

    def __init__(self, env: Env, events: Events, reply: Callable[[int, int, bytes], None]) -> None:
        self._env = env
        self._events = events
        self._reply = reply
        # With the number of its request.
        self._waiting: dict[Key, tuple[int, Group]] = {}
        self._of_connection: dict[int, set[bytes]] = {}
        # The one that was looked after longest ago first.
        self._groups: OrderedDict[tuple[bytes, bool], Group] = OrderedDict()
        # What is to be said, to whom.
        self._due: deque[tuple[Key, int, bytes]] = deque()
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
        if page.rows or page.first != after + 1 or page.last + 1 != events.next:
            # Something to tell, or so much to look at that others come first: it asks again from there.
            return _answer(page)
        if len(self._waiting) >= WATCHERS_MAX:
            return answers.overloaded("WATCHERS_MAX")
        key = (number, watch_id)
        if key in self._waiting:
            return answers.bad_request("this watch waits already")
        group = self._group(prefix, extended)
        group.waiting[key] = None
        self._waiting[key] = (rid, group)
        self._of_connection.setdefault(number, set()).add(watch_id)
        return None

    def _group(self, prefix: bytes, extended: bool) -> Group:
        """The group that has seen everything."""
        group = self._groups.get((prefix, extended))
        while group is not None and group.seen + 1 != self._events.next:
            # Those who came before are told first, of what the newcomer has seen.
            self._look(group)
            group = self._groups.get((prefix, extended))
        if group is None:
            group = self._groups[prefix, extended] = Group(prefix, extended, self._events.next - 1)
        return group

    def cancel(self, number: int, watch_id: bytes) -> None:
        self._tell((number, watch_id), answers.CANCELLED)

    def drop_connection(self, number: int) -> None:
        for watch_id in list(self._of_connection.get(number, ())):
            self._forget((number, watch_id))

    def end_reign(self, refusal: bytes) -> None:
        """Who watches asks the next raft leader, from where it is."""
        for key in list(self._waiting):
            self._tell(key, refusal)
        self._due.clear()

    def _forget(self, key: Key) -> int:
        """Whoever it was waits no more. Returns its request's number; 0: nobody waits under this key."""
        rid, group = self._waiting.pop(key, (0, None))
        if group is None:
            return 0
        of_connection = self._of_connection[key[0]]
        of_connection.remove(key[1])
        if not of_connection:
            del self._of_connection[key[0]]
        group.waiting.pop(key, None)
        if not group.waiting:
            self._disband(group)
        return rid

    def _disband(self, group: Group) -> None:
        which = (group.prefix, group.extended)
        if self._groups.get(which) is group:
            del self._groups[which]

    def _tell(self, key: Key, answer: bytes) -> None:
        rid = self._forget(key)
        if rid:
            self._reply(key[0], rid, answer)

    def happened(self) -> None:
        """There may be something to tell."""
        if not self._scheduled and (self._due or self._behind() is not None):
            self._scheduled = True
            self._env.call_soon(self._work)

    def _behind(self) -> Group | None:
        """Whose turn it is."""
        group = next(iter(self._groups.values()), None)
        return group if group is not None and group.seen + 1 != self._events.next else None

    def _work(self) -> None:
        """Look and tell for a while; the rest is for the next turn of the loop."""
        self._scheduled = False
        clock = self._env.clock
        until = clock() + SLICE_S
        while clock() < until:
            if self._due:
                key, rid, answer = self._due.popleft()
                if self._waiting.get(key, (0, None))[0] == rid:
                    self._tell(key, answer)
            elif (group := self._behind()) is not None:
                self._look(group)
            else:
                return
        self.happened()

    def _look(self, group: Group) -> None:
        """Look at what happened for a group, a part of it if it is much."""
        page = self._events.page(group.seen, group.prefix, extended=group.extended)
        if page.rows or page.first != group.seen + 1:
            self._disband(group)
            answer = _answer(page)
            self._due.extend((key, self._waiting[key][0], answer) for key in group.waiting)
            self.happened()
            return
        group.seen = page.last
        if page.last + 1 == self._events.next:
            self._groups.move_to_end((group.prefix, group.extended))
