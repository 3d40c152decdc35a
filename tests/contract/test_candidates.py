"""Candidates and elections, for every coordinator, from threads and from tasks.

Knows: the public contract of the verbs about candidates. Must not know: how a claim travels.
"""

from __future__ import annotations

from typing import Any

import pytest

import tenure
from cluster.opcodes import Outcome
from tenure import CandidateInfo, FifoStrategy, RankedStrategy, UsageError
from tests.contract.conftest import Ways
from tests.contract.support_forms import Form
from tests.support import eventually


def stands(form: Form, coordinator: Any, name: str) -> list[str]:
    return [info.node_id for info in form.verb(coordinator, "candidates", name)]


def test_who_stands_is_seen_by_all_until_it_goes(ways: Ways, form: Form, name: str) -> None:
    form.verb(ways.one, "register_candidate", name, CandidateInfo("a", weight=2.5, rank=-1, metadata={"zone": "eu"}))
    form.verb(ways.other, "register_candidate", name, CandidateInfo("b"))
    view = form.verb(ways.other, "candidates", name)
    a, b = view
    assert (a.node_id, a.weight, a.rank, a.metadata) == ("a", 2.5, -1, {"zone": "eu"})
    assert (a.last_start, a.last_completion, a.success_count, a.failure_count) == (None, None, 0, 0)
    assert a.registered_at <= b.registered_at <= view.cluster_time
    form.verb(ways.other, "register_candidate", name, CandidateInfo("b"), 60)
    assert form.verb(ways.one, "candidates", name).revision == view.revision, "a refresh is no change"
    form.verb(ways.other, "unregister_candidate", name, "a")
    after = form.verb(ways.one, "candidates", name)
    assert ([info.node_id for info in after], after.revision > view.revision) == (["b"], True)
    form.verb(ways.one, "unregister_candidate", name, "nobody")
    form.verb(ways.one, "unregister_candidate", name, "b")


def test_who_is_not_refreshed_runs_out(ways: Ways, form: Form, name: str) -> None:
    form.verb(ways.one, "register_candidate", name, CandidateInfo("a"), 0.1)
    eventually(lambda: not stands(form, ways.other, name), 10.0, "it has run out")


def test_an_election_explains_itself_and_grants_nothing(ways: Ways, form: Form, name: str) -> None:
    for node_id, rank in (("a", 2), ("b", 1)):
        form.verb(ways.one, "register_candidate", name, CandidateInfo(node_id, rank=rank))
    result = form.verb(ways.other, "elect", name, RankedStrategy())
    assert result == tenure.ElectionResult("b", {"b": -1.0, "a": -2.0}, {})
    assert form.is_free(ways.one, name)


def test_the_elected_is_granted_the_name_and_what_it_did_is_counted(ways: Ways, form: Form, name: str) -> None:
    for node_id in ("a", "b"):
        form.verb(ways.one, "register_candidate", name, CandidateInfo(node_id))
    second = {"node_id": "b", "claim_timeout": 600}
    assert form.verb(ways.other, "acquire_elected", name, RankedStrategy(), **second) is None
    lease = form.verb(ways.one, "acquire_elected", name, RankedStrategy(), node_id="a")
    assert lease.node_id == "a"
    assert form.verb(ways.other, "acquire_elected", name, RankedStrategy(), node_id="b", claim_timeout=0) is None, (
        "held"
    )
    form.on(lease, "release", Outcome.FAILED)
    a, b = form.verb(ways.other, "candidates", name)
    assert (a.success_count, a.failure_count, b.failure_count) == (0, 1, 0)
    assert a.registered_at <= a.last_start <= a.last_completion


def test_two_who_take_themselves_for_the_winner_are_one__F4(ways: Ways, form: Form, name: str) -> None:
    class Me:
        def __init__(self, node_id: str) -> None:
            self._node_id = node_id

        def elect(self, candidates: tenure.Candidates, /) -> tenure.ElectionResult:
            return tenure.ElectionResult(self._node_id, {self._node_id: 0.0})

    for node_id in ("a", "b"):
        form.verb(ways.one, "register_candidate", name, CandidateInfo(node_id))
    calls = [
        form.start_verb(way, "acquire_elected", name, Me(node_id), node_id=node_id)
        for way, node_id in ((ways.one, "a"), (ways.other, "b"))
    ]
    (lease,) = [lease for call in calls if (lease := call.result()) is not None]
    form.on(lease, "release")


def test_a_winner_that_does_not_claim_delays_the_next_and_no_more__F4(ways: Ways, form: Form, name: str) -> None:
    for node_id in ("dead", "me"):
        form.verb(ways.one, "register_candidate", name, CandidateInfo(node_id))
    before = form.verb(ways.one, "candidates", name).cluster_time
    lease = form.verb(
        ways.other, "acquire_elected", name, FifoStrategy(), node_id="me", wait_time=30, claim_timeout=0.3
    )
    assert lease is not None
    _, me = form.verb(ways.one, "candidates", name)
    assert round(me.last_start - before, 3) >= 0.3
    form.on(lease, "release")


def test_a_candidacy_lasts_until_it_is_closed(ways: Ways, form: Form, name: str) -> None:
    with form.verb(ways.one, "keep_candidate", name, CandidateInfo("a"), 0.3) as candidacy:
        began = form.verb(ways.other, "candidates", name).cluster_time
        eventually(lambda: form.verb(ways.other, "candidates", name).cluster_time > began + 0.7, 30.0, "time passes")
        assert (candidacy.name, candidacy.node_id, candidacy.closed) == (name, "a", False)
        # On a busy machine a renewal may be late once; then it stands anew.
        eventually(lambda: stands(form, ways.other, name) == ["a"], 10.0, "it stands")
    assert candidacy.closed
    eventually(lambda: not stands(form, ways.other, name), 10.0, "it is unregistered")


@pytest.mark.parametrize("verb", ["register_candidate", "keep_candidate"])
def test_a_bad_candidate_is_refused__F5(ways: Ways, form: Form, name: str, verb: str) -> None:
    with pytest.raises(UsageError, match="weight=nan"):
        form.verb(ways.one, verb, name, CandidateInfo("a", weight=float("nan")))
    assert stands(form, ways.one, name) == []
