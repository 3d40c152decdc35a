"""Events that a node keeps, and requests that wait for them: what is missing is said, nobody is waited for, memory is bounded (D9).

Knows: a node of one process, client frames, the kept events by themselves. Must not know: clients.
"""

from __future__ import annotations

import asyncio
import functools
import time
from typing import Any

import pytest

from cluster._table import LeaseTable
from cluster.codec import pack, unpack
from cluster.limits import EVENTS_KEPT_MAX_BYTES, EVENTS_PAGE_MAX, WATCHERS_MAX
from cluster.local import LocalNode
from cluster.opcodes import Event, Op, Status
from cluster.server import server as server_module
from cluster.server import watches as watches_module
from cluster.server.events import BATCH_COST_BYTES, LOOK_MAX, Events
from cluster.server.watches import Watches
from tests.server.test_asking_again import on_a_node, turns
from tests.server.test_hostile_requests import Talker, acquire

pytestmark = pytest.mark.fast


def event(name: bytes, kind: int = Event.GRANTED) -> bytes:
    return pack([int(kind), name, 0, 7, b"host:1", 0])


def watch(after: int | None, prefix: bytes = b"", *, watch_id: bytes = b"w" * 16, extended: bool = False) -> list[Any]:
    return [int(Op.WATCH), watch_id, prefix, after, extended]


def release(acq_id: bytes, token: int, name: bytes = b"job") -> list[Any]:
    return [int(Op.RELEASE), acq_id, name, token, 1]


# What is kept.


def test_pages_are_told_by_number_and_prefix_whatever_batches_they_came_in() -> None:
    events = Events(10)
    events.add(event(b"a/1") + event(b"b/1"), 12)
    events.add(b"", 12)
    events.add(event(b"a/2"), 13)
    events.add(event(b"a/2", Event.EXTENDED) + event(b"b/2"), 15)
    assert [row[0] for row in events.page(9, b"", extended=True).rows] == [10, 11, 12, 13, 14]
    first, last, rows = events.page(10, b"a/", extended=False)
    assert (first, last, [row[:3] for row in rows]) == (11, 14, [[12, 1, b"a/2"]])
    assert events.page(14, b"", extended=False) == (15, 14, [])


def test_what_is_not_known_shows_in_where_a_page_begins() -> None:
    events = Events(10)
    events.add(event(b"a"), 11)
    assert events.page(9, b"", extended=False).first == 10
    assert events.page(8, b"", extended=False).first == 10
    assert events.page(10, b"", extended=False)[:2] == (11, 10)
    assert events.page(11, b"", extended=False)[:2] == (11, 10), "a number that was never given"
    events.begin_anew(500)
    assert events.page(10, b"", extended=False) == (500, 499, [])
    assert events.size == 0


def test_the_oldest_are_let_go_when_there_are_too_many_bytes() -> None:
    events = Events(1)
    data = event(b"n" * 255) * 40
    room = EVENTS_KEPT_MAX_BYTES // (len(data) + BATCH_COST_BYTES)
    for _ in range(room):
        events.add(data, events.next + 40)
    assert (events.first, events.size <= EVENTS_KEPT_MAX_BYTES) == (1, True)
    for number in range(3 * room):
        events.add(data, events.next + 40)
        assert events.size <= EVENTS_KEPT_MAX_BYTES, number
    assert events.first > events.next - 40 * room
    assert events.page(0, b"", extended=False).first == events.first
    assert events.page(events.next - 2, b"", extended=False).rows[0][0] == events.next - 1
    # One batch that is larger than all that is kept leaves nothing, and says so.
    events.add(data * (EVENTS_KEPT_MAX_BYTES // len(data) + 1), events.next + 7)
    assert (events.size, events.first) == (0, events.next)


def test_a_page_and_a_look_have_an_end() -> None:
    events = Events(1)
    events.add(event(b"a") * (LOOK_MAX + 10), LOOK_MAX + 11)
    page = events.page(0, b"a", extended=False)
    assert (page.last, len(page.rows)) == (EVENTS_PAGE_MAX, EVENTS_PAGE_MAX)
    assert events.page(0, b"b", extended=False) == (1, LOOK_MAX, [])
    assert events.page(LOOK_MAX, b"b", extended=False) == (LOOK_MAX + 1, LOOK_MAX + 10, [])


# Who waits for it.


async def answered(talker: Talker, rid: int) -> list[Any]:
    for _ in range(5000):
        if rid in talker.answers:
            return talker.answers[rid]
        await asyncio.sleep(0)
    raise AssertionError(f"no answer to {rid}")


def test_a_watch_waits_for_what_it_asked_for_and_misses_nothing_in_between__D9() -> None:
    async def story(node: LocalNode) -> None:
        watcher, holder = await Talker().open(node, b"W" * 16), await Talker().open(node, b"H" * 16)
        status, first, last, rows = await watcher.ask(watch(None))
        assert (status, first, rows) == (Status.OK, last + 1, [])
        # Between two requests.
        token = (await holder.ask(acquire(b"h" * 16)))[1]
        await holder.ask(acquire(b"h" * 16, name=b"other"))
        _, first, seen, rows = await watcher.ask(watch(last, b"job"))
        assert (first, [row[1:5] for row in rows]) == (last + 1, [[1, b"job", 0, token]])
        (rid,) = watcher.send(watch(seen, b"job"))
        await turns()
        assert (rid in watcher.answers, node.server.status()["watchers"]) == (False, 1)
        await holder.ask(acquire(b"h" * 16, name=b"nothing of interest"[:7]))
        await turns()
        assert rid not in watcher.answers
        await holder.ask(release(b"h" * 16, token))
        _, first, _, rows = await answered(watcher, rid)
        assert (first > seen, [row[1:3] for row in rows]) == (True, [[Event.RELEASED, b"job"]])
        assert node.server.status()["watchers"] == 0

    on_a_node(story)


def test_an_expiry_is_told_soon_however_long_the_leases_before_it_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SWEEP_INTERVAL_S", 0.05)

    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"W" * 16)
        await talker.ask(acquire(b"h" * 16))
        last = (await talker.ask(watch(None)))[2]
        await talker.ask([int(Op.ACQUIRE), b"s" * 16, b"short", 100, 1, 0, 0, b"test:1", b""])
        (rid,) = talker.send(watch(last + 1))
        began = time.monotonic()
        while rid not in talker.answers:
            assert time.monotonic() - began < 30, "it waits for the end of the longer lease"
            await asyncio.sleep(0)
        assert [row[1:3] for row in talker.answers[rid][3]] == [[Event.EXPIRED, b"short"]]

    on_a_node(story)


def test_as_many_expiries_as_there_are_are_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep takes some of them, and the next one does not wait for its second."""
    monkeypatch.setattr(server_module, "LeaseTable", functools.partial(LeaseTable, sweep_max=2))

    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"W" * 16)
        for number in range(40):
            await talker.ask([int(Op.ACQUIRE), b"s%015d" % number, b"n%d" % number, 300, 1, 0, 0, b"test:1", b""])
        began = time.monotonic()
        while node.server.table.lease_count:
            assert time.monotonic() - began < 10, "one sweep a second takes twenty"
            await asyncio.sleep(0)

    on_a_node(story)


class Loop:
    """The part of an env that watches use, turn by turn. Each look at the clock takes a tenth of a slice."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: list[Any] = []

    def clock(self) -> float:
        self.now += watches_module.SLICE_S / 10
        return self.now

    def call_soon(self, work: Any) -> None:
        self.soon.append(work)

    def turn(self) -> bool:
        soon, self.soon = self.soon, []
        for work in soon:
            work()
        return bool(soon)


class Desk:
    """Watches by themselves, and who was told what."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.events = Events(1)
        self.told: dict[int, list[Any]] = {}
        self.watches = Watches(self.loop, self.events, self._reply)  # type: ignore[arg-type]
        self.looks = 0
        page = self.events.page

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.looks += 1
            return page(*args, **kwargs)

        self.events.page = counted  # type: ignore[method-assign]

    def _reply(self, number: int, rid: int, answer: bytes) -> None:
        self.told[rid] = unpack(answer)

    def ask(self, rid: int, prefix: bytes, *, after: int = 0) -> bytes | None:
        return self.watches.ask(1, rid, watch(after, prefix, watch_id=rid.to_bytes(16, "big")))

    def happen(self, name: bytes) -> None:
        self.events.add(event(name), self.events.next + 1)
        self.watches.happened()


def test_who_waits_for_the_same_names_costs_one_look_and_is_told_in_slices() -> None:
    desk = Desk()
    for rid in range(1, 101):
        assert desk.ask(rid, b"mine/") is None
    desk.looks = 0
    desk.happen(b"yours/1")
    while desk.loop.turn():
        pass
    assert (desk.looks, desk.told) == (1, {})
    desk.happen(b"mine/1")
    turns_taken = 0
    while desk.loop.turn():
        turns_taken += 1
    assert (desk.looks, turns_taken >= 10) == (2, True)
    assert list(desk.told) == list(range(1, 101))
    assert all(answer[:3] == [Status.OK, 2, 2] for answer in desk.told.values())
    assert len(desk.watches) == 0


def test_a_newcomer_is_not_told_what_it_has_seen_and_does_not_hide_it_from_others() -> None:
    desk = Desk()
    assert desk.ask(1, b"mine/") is None
    desk.happen(b"mine/1")
    desk.happen(b"yours/1")
    # Before the loop comes to it.
    assert desk.ask(2, b"mine/", after=2) is None
    desk.happen(b"mine/2")
    while desk.loop.turn():
        pass
    assert {rid: (answer[1], [row[2] for row in answer[3]]) for rid, answer in desk.told.items()} == {
        1: (1, [b"mine/1"]),
        2: (3, [b"mine/2"]),
    }


def test_what_is_due_to_a_request_that_is_over_goes_to_nobody() -> None:
    desk = Desk()
    assert desk.ask(1, b"") is None
    assert desk.watches.ask(1, 2, watch(0, watch_id=b"w" * 16)) is None
    desk.happen(b"a")
    desk.watches.cancel(1, b"w" * 16)
    assert desk.told.pop(2) == [Status.CANCELLED]
    assert desk.watches.ask(1, 3, watch(1, watch_id=b"w" * 16)) is None
    while desk.loop.turn():
        pass
    assert list(desk.told) == [1]
    desk.watches.drop_connection(1)
    assert len(desk.watches) == 0


def test_whoever_ceases_to_wait_leaves_nothing() -> None:
    async def story(node: LocalNode) -> None:
        watcher = await Talker().open(node, b"W" * 16)
        last = (await watcher.ask(watch(None)))[2]
        one, two = watcher.send(watch(last, watch_id=b"1" * 16), watch(last, watch_id=b"2" * 16))
        refused = await watcher.ask(watch(last, watch_id=b"2" * 16))
        assert refused[0] == Status.BAD_REQUEST
        assert await watcher.ask([int(Op.CANCEL), b"1" * 16]) == [Status.OK]
        assert (await answered(watcher, one), two in watcher.answers) == ([Status.CANCELLED], False)
        watcher.connection.close("gone")
        await turns()
        assert node.server.status()["watchers"] == 0

    on_a_node(story)


def test_watchers_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert WATCHERS_MAX > 3
    monkeypatch.setattr(watches_module, "WATCHERS_MAX", 3)

    async def story(node: LocalNode) -> None:
        watcher = await Talker().open(node, b"W" * 16)
        last = (await watcher.ask(watch(None)))[2]
        watcher.send(*(watch(last, watch_id=bytes([number]) * 16) for number in range(3)))
        assert await watcher.ask(watch(last)) == [Status.OVERLOADED, "WATCHERS_MAX"]
        await watcher.ask([int(Op.CANCEL), bytes([1]) * 16])
        (rid,) = watcher.send(watch(last))
        await turns()
        assert (rid in watcher.answers, node.server.status()["watchers"]) == (False, 3)

    on_a_node(story)


def test_the_end_of_a_reign_sends_watchers_to_the_next_raft_leader() -> None:
    async def story(node: LocalNode) -> None:
        watcher = await Talker().open(node, b"W" * 16)
        last = (await watcher.ask(watch(None)))[2]
        (rid,) = watcher.send(watch(last))
        await turns()
        node.server.role_changed(False, 2, "elsewhere:1")
        assert (await answered(watcher, rid))[:2] == [Status.NOT_LEADER, "elsewhere:1"]

    on_a_node(story)


def test_a_snapshot_in_place_of_the_log_is_a_gap_and_no_silence() -> None:
    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"W" * 16)
        last = (await talker.ask(watch(None)))[2]
        await talker.ask(acquire(b"h" * 16))
        await talker.ask(acquire(b"h" * 16, name=b"other"))
        node.server.restore(node.server.table.snapshot())
        assert await talker.ask(watch(last)) == [Status.OK, last + 3, last + 2, []]
        # Who had seen all of it has missed nothing.
        (rid,) = talker.send(watch(last + 2))
        await turns()
        assert rid not in talker.answers

    on_a_node(story)


def test_a_group_that_forms_anew_numbers_above_and_says_that_there_was_something_before() -> None:
    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"W" * 16)
        last = (await talker.ask(watch(None)))[2]
        assert last > 1 << 50
        assert await talker.ask(watch(0)) == [Status.OK, last + 1, last, []]
        assert await talker.ask(watch(last + 9)) == [Status.OK, last + 1, last, []]

    on_a_node(story)
