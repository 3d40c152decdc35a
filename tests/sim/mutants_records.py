"""Rules of records (I10, linearizable reads), each broken in the running code; see ``mutants``.

Knows: where each rule stands in the code. Must not know: how a mistake is found.
"""

from __future__ import annotations

from typing import Any

from cluster.client.records import WriteCall
from cluster.server.records import RecordDesk
from tests.sim.model_table import in_place
from tests.sim.mutants import Mutant, replaced
from tests.table.mutants_records import NobodysWriteIsLetIn, RetryIsAppliedAgain, TokenUnchecked


def _another_id(stock: Any) -> Any:
    """Each frame of a write is a write of its own."""

    def operation(self: Any, now: float) -> Any:
        code, _, *rest = stock(self, now)
        return (code, self._engine.new_id(), *rest)

    return operation


def _at_once(stock: Any) -> Any:
    """Whoever once was the raft leader answers from memory."""
    return lambda self, session, rid, key: self._read(session, key)


MUTANTS: dict[str, Mutant] = {
    "record written without the lease it is bound to": lambda: in_place(NobodysWriteIsLetIn),
    "record written under a token that is over": lambda: in_place(TokenUnchecked),
    "retried write of a record applied again": lambda: in_place(RetryIsAppliedAgain),
    "retried write of a record under another id": replaced(WriteCall, "operation", _another_id),
    "record read without a fresh majority": replaced(RecordDesk, "get", _at_once),
}
WORK_OF: dict[str, str] = dict.fromkeys(list(MUTANTS)[2:], "records")
"""Which take runs whose clients do nothing else."""
