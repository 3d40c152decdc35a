"""The contract of ``run_if_leader``, rule by rule, for every coordinator and form.

Knows: the contract. Must not know: how anything behind the public names works.
"""

from __future__ import annotations

from typing import Any

import pytest

from tenure import ActionFailed, Elected, LeaseLost, LeaseLostError, NotLeaderError, Skipped
from tests.contract.conftest import FORMS, GROUP_FORMS, STRATEGIC_FORMS, Ways
from tests.contract.support_forms import Form, Work
from tests.support import eventually

pytestmark = pytest.mark.parametrize("form", [*FORMS, *GROUP_FORMS, *STRATEGIC_FORMS], indirect=True)


class Broken(Exception):
    pass


def finished(value: Any = None) -> Work:
    work = Work()
    work.finish(value)
    return work


def failing(error: BaseException) -> Work:
    work = Work()
    work.fail(error)
    return work


def test_who_is_granted_runs_the_action_exactly_once__rule_1(ways: Ways, form: Form, name: str) -> None:
    work = finished("value")
    result = form.run(ways.one, name, work, result=True, node_id="me")
    assert isinstance(result, Elected)
    assert (result.value, result.node_id) == ("value", "me")
    assert result.token == work.lease.token > 0
    assert work.calls == 1


def test_the_plain_form_returns_the_value__rule_1(ways: Ways, form: Form, name: str) -> None:
    assert form.run(ways.one, name, finished("value")) == "value"


def test_an_action_that_returns_none_is_elected__rule_1(ways: Ways, form: Form, name: str) -> None:
    result = form.run(ways.one, name, finished(None), result=True)
    assert isinstance(result, Elected)
    assert result.value is None


def test_contention_is_none_and_no_error__rule_2(ways: Ways, form: Form, name: str) -> None:
    holder, contender = Work(), Work()
    call = form.start(ways.one, name, holder, node_id="the-holder")
    holder.wait_started()
    assert form.run(ways.other, name, contender, wait_time=0) is None
    result = form.run(ways.other, name, contender, result=True, wait_time=0.05)
    assert result == Skipped("held", "the-holder")
    assert contender.calls == 0
    holder.finish(1)
    assert call.result() == 1


def test_who_waits_is_granted_when_the_name_is_free__rule_2(ways: Ways, form: Form, name: str) -> None:
    first, second = Work(), finished("second")
    running = form.start(ways.one, name, first)
    first.wait_started()
    waiting = form.start(ways.other, name, second, wait_time=20)
    if form.queues:
        eventually(lambda: form.verb(ways.one, "state", name, consistent=True).waiters == 1, what="one waiter")
    assert not waiting.done
    first.finish("first")
    assert waiting.result() == "second"
    assert running.result() == "first"
    assert second.lease.token > first.lease.token


def test_what_the_action_raises_reaches_the_caller_unchanged_after_the_release__rule_3(
    ways: Ways, form: Form, name: str
) -> None:
    error = Broken("the action's own")
    with pytest.raises(Broken) as caught:
        form.run(ways.one, name, failing(error))
    assert caught.value is error
    assert form.is_free(ways.other, name)


def test_a_failure_is_a_value_of_the_result_form__rule_3(ways: Ways, form: Form, name: str) -> None:
    error, work = Broken("the action's own"), Work()
    work.fail(error)
    result = form.run(ways.one, name, work, result=True)
    assert result == ActionFailed(error, work.lease.token)
    assert form.is_free(ways.other, name)


def test_the_name_is_held_until_the_action_has_ended_and_free_then__rule_4(ways: Ways, form: Form, name: str) -> None:
    work = Work()
    call = form.start(ways.one, name, work)
    work.wait_started()
    assert not form.is_free(ways.other, name)
    work.finish()
    call.result()
    assert form.is_free(ways.other, name)


def test_the_name_is_free_after_every_other_way_out__rule_4(ways: Ways, form: Form, name: str) -> None:
    # Out of a task SystemExit and KeyboardInterrupt end the whole loop; tests/tenure shows that with loops of its own.
    others = [SystemExit(3), KeyboardInterrupt()] if form.name != "asyncio" else []
    for error in (GeneratorExit(), *others):
        with pytest.raises(type(error)) as caught:
            form.run(ways.one, name, failing(error), result=True)
        assert caught.value is error
        assert form.is_free(ways.other, name)


def test_an_expired_lease_makes_the_outcome_lost_and_the_plain_form_raise__rule_7(
    ways: Ways, form: Form, name: str
) -> None:
    # Side by side, for the time that it takes.
    work, plain, error = Work(stubborn=True), Work(stubborn=True), Broken("late")
    call = form.start(ways.one, name, work, result=True, lease_time=0.4)
    raising = form.start(ways.one, f"{name}/plain", plain, lease_time=0.4)
    for each in (work, plain):
        each.wait_started()
        eventually(each.lease.lost.is_set, what="the lease is lost")
    eventually(lambda: form.is_free(ways.other, name), what="the name is free")
    work.finish("late")
    assert call.result() == LeaseLost("late", None, work.lease.token)
    plain.fail(error)
    with pytest.raises(LeaseLostError, match=f"{name}/plain") as caught:
        raising.result()
    assert caught.value.__cause__ is error


def test_a_holder_is_told_before_another_is_granted__rule_7__I8(ways: Ways, form: Form, name: str) -> None:
    first, second = Work(stubborn=True), Work()
    running = form.start(ways.one, name, first, result=True, lease_time=0.4)
    first.wait_started()
    waiting = form.start(ways.other, name, second, wait_time=20)
    second.wait_started()
    assert first.lease.lost.is_set()
    assert first.lease.confidence == "lost"
    # The late release of the first holder changes nothing for the second.
    first.finish()
    assert isinstance(running.result(), LeaseLost)
    assert not form.is_free(ways.one, name)
    assert second.lease.token > first.lease.token
    second.finish("mine")
    assert waiting.result() == "mine"


def test_a_nested_call_is_an_ordinary_contender__rule_8(ways: Ways, form: Form, name: str) -> None:
    outer, inner = Work(), Work()
    call = form.start(ways.one, name, outer, node_id="same")
    outer.wait_started()
    assert form.run(ways.one, name, inner, wait_time=0, node_id="same") is None
    assert inner.calls == 0
    outer.finish()
    call.result()


def test_tokens_only_rise__I2(ways: Ways, form: Form, name: str) -> None:
    tokens = []
    for way in (ways.one, ways.other) * 5:
        result = form.run(way, name, finished(), result=True)
        tokens.append(result.token)
    assert tokens == sorted(set(tokens))


def test_leading_holds_the_name_for_its_body(ways: Ways, form: Form, name: str) -> None:
    work = Work()
    call = form.start_leading(ways.one, name, work)
    work.wait_started()
    assert not form.is_free(ways.other, name)
    work.finish("value")
    assert call.result() == "value"
    assert form.is_free(ways.other, name)


def test_leading_without_the_name_never_enters_its_body(ways: Ways, form: Form, name: str) -> None:
    holder, contender = Work(), Work()
    call = form.start_leading(ways.one, name, holder)
    holder.wait_started()
    with pytest.raises(NotLeaderError, match=name):
        form.start_leading(ways.other, name, contender, wait_time=0).result()
    assert form.start_leading(ways.other, name, contender, optional=True, wait_time=0).result() is None
    assert contender.calls == 0
    holder.finish()
    call.result()


def test_the_body_of_leading_keeps_its_own_exception(ways: Ways, form: Form, name: str) -> None:
    error = Broken("the body's own")
    with pytest.raises(Broken) as caught:
        form.start_leading(ways.one, name, failing(error)).result()
    assert caught.value is error
    assert form.is_free(ways.other, name)


def test_leading_says_that_the_lease_was_lost(ways: Ways, form: Form, name: str) -> None:
    work = Work(stubborn=True)
    call = form.start_leading(ways.one, name, work, lease_time=0.4)
    work.wait_started()
    eventually(work.lease.lost.is_set, what="the lease is lost")
    work.finish()
    with pytest.raises(LeaseLostError, match=name):
        call.result()
