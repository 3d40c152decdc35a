"""Writes of records through lost replies, changes of leader and silence: once, under one id, or said to be unknown. C6, E6, I10.

Knows: what each answer and each silence must lead to. Must not know: how the client does it.
"""

from __future__ import annotations

import asyncio

import pytest

from cluster.errors import FencedError, Indeterminate, ProtocolError, Unavailable, VersionConflictError
from cluster.opcodes import Op, Status
from tests.client.fakeserver import LOST_REPLY, LOST_REQUEST, SEVERED_AFTER, SEVERED_BEFORE, Fate
from tests.client.support import World, outcome_of, story

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("fate", [SEVERED_AFTER, SEVERED_BEFORE, Fate(answer=[int(Status.UNSURE)])])
def test_a_write_whose_answer_is_lost_is_asked_again_under_its_id__C6_E6(fate: Fate) -> None:
    async def tell(world: World) -> None:
        records = world.aio.records
        known = (await records.put("other", b"")).version
        world.cluster.once(Op.RECORD_PUT, fate)
        written = await records.put("key", b"value", expected_version=0)
        assert await records.get("key") == written
        first, second = world.cluster.of(Op.RECORD_PUT)[1:]
        assert first.op[:-1] == second.op[:-1]
        # Asked again it says which numbers were given out before it was first asked.
        assert (first.op[-1], second.op[-1]) == (None, known)

    story(tell)


def test_a_write_that_was_refused_for_now_is_no_retry() -> None:
    async def tell(world: World) -> None:
        world.cluster.once(Op.RECORD_PUT, Fate(answer=[int(Status.OVERLOADED), "RECORD_WRITES_QUEUED_MAX_BYTES"]))
        await world.aio.records.put("key", b"value")
        assert [request.op[-1] for request in world.cluster.of(Op.RECORD_PUT)] == [None, None]

    story(tell)


def test_a_write_that_came_between_is_not_overwritten_by_a_retry__C6() -> None:
    async def tell(world: World) -> None:
        other = world.another()
        world.cluster.once(Op.RECORD_PUT, Fate(replied=False))
        writing = asyncio.ensure_future(world.aio.records.put("key", b"first"))
        await world.until(lambda: world.cluster.of(Op.RECORD_PUT))
        second = await other.aio.records.put("key", b"second")
        for conn in [conn for conn in world.cluster.conns if conn.hello.node_id == "me"]:
            conn.sever()
        first = await writing
        assert first.version < second.version
        assert await world.aio.records.get("key") == second
        await other.aio.close()

    story(tell)


def test_a_deletion_is_retried_likewise__C6() -> None:
    async def tell(world: World) -> None:
        records = world.aio.records
        await records.put("key", b"value")
        world.cluster.once(Op.RECORD_DELETE, SEVERED_AFTER)
        assert await records.delete("key") is True
        assert await records.delete("key") is False

    story(tell)


def test_no_answer_in_time_is_indeterminate_or_unavailable__E6() -> None:
    async def tell(world: World) -> None:
        records = world.aio.records
        await records.put("key", b"")
        world.cluster.always(Op.RECORD_PUT, LOST_REPLY)
        with pytest.raises(Indeterminate, match=r"put 'key': it may have happened.*read the record") as unknown:
            await records.put("key", b"maybe", timeout=0.5)
        assert unknown.value.applied == "unknown"
        world.cluster.rules.clear()
        world.cluster.kill("n1:1")
        await world.advance(0.1)
        with pytest.raises(Unavailable, match="put 'key'") as refused:
            await records.put("key", b"never", timeout=0.5)
        assert refused.value.applied == "no"
        world.cluster.lead("n2:1")
        found = await records.get("key")
        assert found is not None
        assert found.value == b"maybe"

    story(tell)


def test_what_the_cluster_may_have_forgotten_is_indeterminate__I10() -> None:
    async def tell(world: World) -> None:
        world.cluster.once(Op.RECORD_PUT, SEVERED_AFTER)
        world.cluster.rules.append(
            lambda request: Fate(answer=[int(Status.FORGOTTEN)]) if request.op[-1] == 0 else None
        )
        with pytest.raises(Indeterminate, match="does not remember"):
            await world.aio.records.put("key", b"value")

    story(tell)


def test_what_was_heard_is_known_when_asked_again__I10() -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job")
        assert lease is not None
        world.cluster.once(Op.RECORD_PUT, SEVERED_AFTER)
        first = await world.aio.records.put("key", b"", lease=lease)
        assert world.cluster.of(Op.RECORD_PUT)[-1].op[-1] == lease.token
        reader = world.another()
        assert await reader.aio.records.get("key") == first
        world.cluster.once(Op.RECORD_PUT, SEVERED_AFTER)
        await reader.aio.records.put("other", b"")
        assert world.cluster.of(Op.RECORD_PUT)[-1].op[-1] == first.version
        await reader.aio.close()
        await lease.release()

    story(tell)


def test_refusals_of_the_log_are_errors_of_their_own__I10() -> None:
    async def tell(world: World) -> None:
        records = world.aio.records
        lease = await world.aio.acquire("job")
        assert lease is not None
        mine = await records.put("key", b"", lease=lease)
        with pytest.raises(FencedError, match="bound to 'job', and the write was made under no lease") as fenced:
            await records.put("key", b"")
        assert (fenced.value.applied, fenced.value.retryable) == ("no", False)
        with pytest.raises(VersionConflictError, match=f"it has version {mine.version}"):
            await records.delete("key", lease=lease, expected_version=mine.version + 1)
        await lease.release()
        with pytest.raises(FencedError, match=f"token {lease.token} is not a live one of 'job'"):
            await records.delete("key", lease=lease)

    story(tell)


@pytest.mark.parametrize("limit", ["RECORDS_MAX", "RECORDS_MAX_BYTES"])
def test_a_full_cluster_says_which_limit_is_reached(limit: str) -> None:
    async def tell(world: World) -> None:
        code = {"RECORDS_MAX": 5, "RECORDS_MAX_BYTES": 6}[limit]
        world.cluster.once(Op.RECORD_PUT, Fate(answer=[int(Status.LIMIT), code]))
        with pytest.raises(Unavailable, match=f"at its limit {limit}$|at its limit {limit}\\b"):
            await world.aio.records.put("key", b"")

    story(tell)


@pytest.mark.parametrize("answer", [[0], [0, "x"], [0, 1, -1], [9], [9, "job"], [10], [12]])
def test_a_malformed_answer_is_a_protocol_error(answer: list[object]) -> None:
    async def tell(world: World) -> None:
        world.cluster.once(Op.RECORD_PUT, Fate(answer=answer))
        assert isinstance(await outcome_of(world.aio.records.put("key", b"")), ProtocolError)

    story(tell)


@pytest.mark.parametrize("answer", [[0], [0, 1, 2], [0, 1, 2, 0, "text", b""], [0, 1, "x", 0, b"", b""]])
def test_a_malformed_record_is_a_protocol_error(answer: list[object]) -> None:
    async def tell(world: World) -> None:
        world.cluster.once(Op.RECORD_GET, Fate(answer=answer))
        assert isinstance(await outcome_of(world.aio.records.get("key")), ProtocolError)

    story(tell)


def test_a_read_is_asked_again_and_changes_nothing() -> None:
    async def tell(world: World) -> None:
        records = world.aio.records
        await records.put("key", b"value")
        world.cluster.once(Op.RECORD_GET, SEVERED_BEFORE)
        found = await records.get("key")
        assert found is not None
        world.cluster.always(Op.RECORD_GET, LOST_REQUEST)
        assert isinstance(await outcome_of(records.get("key", timeout=0.3)), Unavailable)

    story(tell)


def test_a_cancelled_write_leaves_nothing_under_way__C4() -> None:
    async def tell(world: World) -> None:
        await world.aio.records.get("key")
        world.cluster.once(Op.RECORD_PUT, LOST_REQUEST)
        writing = asyncio.ensure_future(world.aio.records.put("key", b""))
        await world.advance(0.05)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing

    story(tell)
