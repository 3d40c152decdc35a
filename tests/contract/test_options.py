"""What the options of an elector do, in every form: the minimum lease, auto-extension; the rest is asked by the other rules.

Knows: forms, coordinators. Must not know: how a lease is kept.
"""

from __future__ import annotations

import pytest

from tenure import Elected
from tests.contract.conftest import FORMS, GROUP_FORMS, STRATEGIC_FORMS, Ways, made_form
from tests.contract.support_forms import Form, LoopThread, Work

EVERY_FORM = [*FORMS, *GROUP_FORMS, *STRATEGIC_FORMS]


@pytest.mark.parametrize("form", EVERY_FORM, indirect=True)
def test_a_minimum_lease_outlives_its_action_and_its_token_does_not(ways: Ways, form: Form, name: str) -> None:
    work = Work()
    work.finish("early")
    result = form.run(ways.one, name, work, result=True, lease_time=60, min_lease_time=60)
    # The caller is back at once, and the name is not free; what it was granted is over.
    assert isinstance(result, Elected)
    assert not form.is_free(ways.other, name)
    assert work.lease.confidence == "lost"


@pytest.mark.parametrize("ways", ["local", "client"], indirect=True)
def test_auto_extend_holds_past_the_lease_time_in_every_form(ways: Ways, loop_thread: LoopThread, name: str) -> None:
    """All side by side, for the time that it takes."""
    forms = [made_form(each, loop_thread.loop) for each in EVERY_FORM]
    works = [Work() for _ in forms]
    calls = [
        form.start(ways.one, f"{name}/{n}", work, result=True, lease_time=1, auto_extend=True)
        for n, (form, work) in enumerate(zip(forms, works, strict=True))
    ]
    for work in works:
        work.wait_started()
    # The last one's name would be granted after 1 s if nobody renewed it; the others' began before.
    assert ways.other.acquire(f"{name}/{len(forms) - 1}", wait_time=1.4) is None
    for work in works:
        assert work.lease.confidence == "held"
        work.finish()
    assert all(isinstance(call.result(), Elected) for call in calls)
