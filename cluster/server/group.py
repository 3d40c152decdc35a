"""Operations on the raft group: members come and go, leadership is handed over.

Knows: who may ask, what an address is, how outcomes become answers. Must not know: how the log changes its members.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from cluster.address import Address
from cluster.codec import pack
from cluster.errors import UsageError
from cluster.opcodes import Op, Status
from cluster.ports import ChangeOutcome, Replicator
from cluster.server import answers

logger = logging.getLogger(__name__)

GROUP_OPS = frozenset((Op.TRANSFER, Op.MEMBER_ADD, Op.MEMBER_REMOVE))


def operate(
    log: Replicator, role: str, asker: str, operation: list[Any], reply: Callable[[bytes], None]
) -> bytes | None:
    """Begin one of ``GROUP_OPS``. Returns its answer, or None if ``reply`` gets it later."""
    if role != "admin":
        return answers.bad_request("changing the raft group needs the admin role")
    code, name = operation[0], operation[1]
    if name or code != Op.TRANSFER:
        try:
            name = str(Address.parse(name, what="member"))
        except UsageError as error:
            return _refused(error.detail, error.hint, again=False)
    logger.info("group.asked operation=%s member=%s by=%s", Op(code).name, name or "-", asker)

    def settled(outcome: ChangeOutcome) -> None:
        if outcome.kind == "done":
            reply(answers.OK)
        elif outcome.kind == "unsure":
            reply(answers.UNSURE)
        else:
            reply(_refused(outcome.text, outcome.hint, again=outcome.again))

    if code == Op.TRANSFER:
        log.hand_over(name or None, settled)
    else:
        log.change_members(code == Op.MEMBER_ADD, name, operation[2], settled)
    return None


def _refused(text: str, hint: str, *, again: bool) -> bytes:
    return pack([int(Status.REFUSED), text, hint, again])
