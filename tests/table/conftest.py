"""One suite of rules for the compiled table and for the model that it is compared with.

Knows: how to make either. Must not know: the rules.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster._table import LeaseTable
from tests.table.model import Model
from tests.table.scripts import Machine
from tests.table.talk import Talk

MACHINES: dict[str, Callable[..., Machine]] = {"table": LeaseTable, "model": Model}


@pytest.fixture(params=MACHINES)
def make(request: pytest.FixtureRequest) -> Callable[..., Machine]:
    """Makes a machine, with the real limits or with others."""
    return MACHINES[request.param]


@pytest.fixture
def talk(make: Callable[..., Machine]) -> Talk:
    return Talk(make())
