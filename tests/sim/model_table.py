"""The readable model of the table in the place of the compiled one, so that a rule of it can be broken in a running system.

Knows: what the server asks of its table. Must not know: how the model finds its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from cluster.server import server
from tests.table import views
from tests.table.model import Model


class ModelTable(Model):
    """``LeaseTable``, as far as the server and the observer use it."""

    def __init__(self, *, seed: int = 0) -> None:
        # The compiled table's hashing has a seed; here there is nothing to hash.
        del seed
        super().__init__()

    def freeze(self) -> Callable[[], bytes]:
        state = self.snapshot()
        return lambda: state

    @property
    def time_ms(self) -> int:
        return self.now

    @property
    def lease_count(self) -> int:
        return len(self.leases)

    @property
    def session_count(self) -> int:
        return len(self.sessions)

    def record(self, key: bytes) -> tuple[bytes, int, int, bytes] | None:
        found = self.records.get(key)
        return None if found is None else (found.name, found.version, found.token, found.value)

    def candidates(self, name: bytes, now_ms: int) -> tuple[int, int, list[tuple[Any, ...]]]:
        return views.candidates(self, name, now_ms)

    def next_deadline(self) -> int:
        return views.next_deadline(self)

    def next_free(self, name: bytes, max_leaders: int, now_ms: int) -> int:
        return views.next_free(self, name, max_leaders, now_ms)

    def holds(self, name: bytes, acq_id: bytes, now_ms: int) -> bool:
        now = max(now_ms, self.now)
        return any(
            lease.name == name and lease.acq_id == acq_id and not lease.dead and self.ends(lease) > now
            for lease in self.leases
        )

    def rows(self, name: bytes, now_ms: int) -> list[tuple[Any, ...]]:
        return views.rows(self, name, now_ms)

    def leaver(self, name: bytes, now_ms: int) -> tuple[Any, ...] | None:
        return views.leaver(self, name, now_ms)

    def chain_length(self, name: bytes) -> int:
        return views.chain_length(self, name)

    def scan(
        self, prefix: bytes, after_name: bytes, after_slot: int, limit: int, now_ms: int
    ) -> tuple[list[Any], bool]:
        return views.scan(self, prefix, after_name, after_slot, limit, now_ms)


def table_of(model: type[Model]) -> type[ModelTable]:
    """A table that follows this model's rules."""
    return ModelTable if model is Model else type(model.__name__, (model, ModelTable), {})


def fresh_table() -> Any:
    """An empty table of the kind that servers are given now."""
    return vars(server)["LeaseTable"]()


@contextmanager
def in_place(model: type[Model]) -> Iterator[None]:
    """Servers, and the observer, that are made meanwhile have a table that follows this model's rules."""
    with patch.object(server, "LeaseTable", table_of(model)):
        yield
