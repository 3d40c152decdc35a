"""The strategic electors as forms of the contract suite.

Knows: their options. Must not know: the rules under test.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import tenure
from tenure import ElectionOptions
from tests.contract.support_forms import Asyncio, Blocking, Form

_candidates = itertools.count(1)


class _Strategic(Form):
    """Electors that each stand as a candidate of their own; everybody's turn is at once, so that every rule of the others holds."""

    queues = False

    def elector(self, coordinator: Any, *, listeners: Iterable[Any] = (), **options: Any) -> Any:
        named = ElectionOptions(**{"node_id": f"candidate-{next(_candidates)}", **options})
        return self.single(
            coordinator, named, strategy=tenure.FifoStrategy(), claim_timeout=0, listeners=listeners
        )


class StrategicBlocking(_Strategic, Blocking):
    single = tenure.StrategicLeaderElector


class StrategicAsyncio(_Strategic, Asyncio):
    single = tenure.AsyncStrategicLeaderElector
