"""Standing for a name, in virtual time: kept up, taken back, never by an end that came before (F5).

Knows: the verbs, scripted faults. Must not know: when the client renews.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.errors import UsageError
from cluster.limits import CANDIDATE_INFO_MAX_BYTES, TOKEN_MAX
from cluster.opcodes import Op, Outcome, Status
from tenure import CandidateInfo
from tests.client.fakeserver import LOST_REPLY, SEVERED_AFTER, SEVERED_BEFORE, Fate
from tests.client.support import World, story
from tests.client.test_electing import FIFO, stand

pytestmark = pytest.mark.fast


def test_a_candidacy_is_renewed_and_keeps_what_was_counted__F5() -> None:
    async def tell(world: World) -> None:
        candidacy = await world.aio.keep_candidate("job", CandidateInfo("me", rank=3), ttl=3)
        before = await world.aio.candidates("job")
        lease = await world.aio.acquire_elected("job", FIFO)
        assert lease is not None
        await lease.release(Outcome.COMPLETED)
        await world.advance(30)
        assert len(world.cluster.of(Op.CANDIDATE_REGISTER)) == 1
        assert 28 <= len(world.cluster.of(Op.CANDIDATE_REFRESH)) <= 31, "each third of its time"
        (info,) = await world.aio.candidates("job")
        assert (info.rank, info.success_count, info.registered_at) == (3, 1, before.infos[0].registered_at)
        candidacy.close()
        candidacy.close()
        await world.advance(0.1)
        assert len(await world.aio.candidates("job")) == 0

    story(tell)


def test_a_candidate_that_ran_out_stands_anew() -> None:
    async def tell(world: World) -> None:
        candidacy = await world.aio.keep_candidate("job", CandidateInfo("me"), ttl=3)
        world.cluster.lead("")
        await world.advance(10)
        world.cluster.lead("n2:1")
        await world.advance(4)
        assert [info.node_id for info in await world.aio.candidates("job")] == ["me"]
        assert len(world.cluster.of(Op.CANDIDATE_REGISTER)) == 2
        candidacy.close()

    story(tell)


def test_candidacies_of_one_node_id_share_a_registration() -> None:
    async def tell(world: World) -> None:
        one = await world.aio.keep_candidate("job", CandidateInfo("me"), ttl=3)
        two = await world.aio.keep_candidate("job", CandidateInfo("me"), ttl=3)
        one.close()
        await world.advance(10)
        assert len(await world.aio.candidates("job")) == 1
        assert len(world.cluster.of(Op.CANDIDATE_REFRESH)) <= 11
        del two
        await world.advance(0.1)
        assert len(await world.aio.candidates("job")) == 0, "forgotten, it is closed"

    story(tell)


@pytest.mark.parametrize("late", [Op.CANDIDATE_UNREGISTER, Op.CANDIDATE_REGISTER])
def test_who_stands_again_at_once_is_not_taken_back_by_the_end_before(late: Op) -> None:
    async def tell(world: World) -> None:
        first = await world.aio.keep_candidate("job", CandidateInfo("me"), ttl=60)
        world.cluster.once(late, Fate(late_s=0.2))
        world.cluster.once(Op.CANDIDATE_UNREGISTER, LOST_REPLY)
        asked = asyncio.ensure_future(world.aio.keep_candidate("job", CandidateInfo("me"), ttl=60))
        first.close()
        second = await asked
        second.close()
        third = await world.aio.keep_candidate("job", CandidateInfo("me"), ttl=60)
        await world.advance(8)
        assert len(await world.aio.candidates("job")) == 1
        third.close()

    story(tell)


@pytest.mark.parametrize("fate", [SEVERED_BEFORE, SEVERED_AFTER, Fate(answer=[int(Status.OVERLOADED), "x"])])
def test_an_end_that_is_asked_again_takes_no_later_registration_back(fate: Fate) -> None:
    async def tell(world: World) -> None:
        first = await world.aio.keep_candidate("job", CandidateInfo("me"), ttl=60)
        world.cluster.once(Op.CANDIDATE_UNREGISTER, fate)
        first.close()
        second = await world.aio.keep_candidate("job", CandidateInfo("me"), ttl=60)
        await world.advance(8)
        assert len(await world.aio.candidates("job")) == 1
        second.close()

    story(tell)


@pytest.mark.parametrize("when", ["looked", "claimed"])
def test_a_candidate_that_ran_out_is_registered_again_when_it_is_needed(when: str) -> None:
    async def tell(world: World) -> None:
        candidacy = await world.aio.keep_candidate("job", CandidateInfo("me"), ttl=600)
        if when == "looked":
            world.cluster.apply([int(Op.CANDIDATE_UNREGISTER), b"job", b"me"])
        else:
            world.cluster.once(Op.ELECT, Fate(answer=[int(Status.NOT_HELD)]))
        lease = await world.aio.acquire_elected("job", FIFO, wait_time=1)
        assert lease is not None
        await lease.release()
        assert len(world.cluster.of(Op.CANDIDATE_REGISTER)) == 2
        candidacy.close()

    story(tell)


def test_closing_the_coordinator_ends_candidacies() -> None:
    async def tell(world: World) -> None:
        candidacy = await world.aio.keep_candidate("job", CandidateInfo("me"), ttl=600)
        await world.aio.close(limit=0)
        assert world.cluster.table.candidate_count == 0
        candidacy.close()

    story(tell, leaks=False)


@pytest.mark.parametrize(
    ("info", "says"),
    [
        (CandidateInfo(""), "node_id ''"),
        (CandidateInfo("a", weight=float("nan")), "weight=nan"),
        (CandidateInfo("a", weight=-1), "weight=-1"),
        (CandidateInfo("a", weight="1"), "weight must be a number, not str"),  # type: ignore[arg-type]
        (CandidateInfo("a", rank=1.5), "rank=1.5"),  # type: ignore[arg-type]
        (CandidateInfo("a", rank=TOKEN_MAX + 1), "rank="),
        (CandidateInfo("a", metadata={"a": "b" * 4080}), f"keep them within {CANDIDATE_INFO_MAX_BYTES} bytes"),
        ("a", "info is str"),
    ],
)
def test_a_bad_candidate_is_refused_before_anything_is_sent(info: Any, says: str) -> None:
    async def tell(world: World) -> None:
        for verb in (world.aio.register_candidate, world.aio.keep_candidate):
            with pytest.raises(UsageError, match=says):
                await verb("job", info)
        assert not world.cluster.seen

    story(tell)


def test_a_good_candidate_is_just_within_its_limits() -> None:
    async def tell(world: World) -> None:
        info = CandidateInfo("n" * 255, weight=0, rank=-TOKEN_MAX, metadata={"a": "b" * 4060})
        await world.aio.register_candidate("job", info, 0.1)
        (found,) = await world.aio.candidates("job")
        assert (found.node_id, found.weight, found.rank, found.metadata) == (
            info.node_id,
            0.0,
            info.rank,
            info.metadata,
        )

    story(tell)


@pytest.mark.parametrize("strange", [b"", b"\xc1", b"\x93\x01\x02\xc4\x00", b"\x92\x01\x02", b"\x01"])
def test_a_strangers_words_hide_nobody__F5(strange: bytes) -> None:
    async def tell(world: World) -> None:
        await stand(world, "me")
        world.cluster.apply([int(Op.CANDIDATE_REGISTER), b"job", b"alien", 60_000, strange])
        me, alien = await world.aio.candidates("job")
        assert me.weight == 1.0
        assert alien.weight != alien.weight, "no weighing strategy elects it"

    story(tell)
