"""How a run ended, as values made for ``match``.

Knows: the endings and what each carries. Must not know: how they come about (see ``_engine``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from cluster.errors import CoordinationError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Elected(Generic[T]):
    """The action ran to its end while the name was held. ``value`` may be None: that is not ``Skipped``.

    Attributes:
        value: what the action returned.
        node_id: under which the name was held.
        token: the fencing token of this run.
    """

    value: T
    node_id: str
    token: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """The action did not run.

    Attributes:
        reason: ``"held"``: others held the name, or stood in line for it, for the whole wait time.
            ``"not_elected"``: a strategic elector was not
            elected, or its turn did not come. ``"unavailable"``: nobody could be
            asked, and ``failure_mode="skip"`` of a decorator left the run out.
        holder: the node id of who held it when this run gave up, for people to read; None where it is not known.
    """

    reason: str
    holder: str | None = None


@dataclass(frozen=True, slots=True)
class ActionFailed:
    """The action raised while the name was held.

    Attributes:
        cause: the exception, as the action raised it.
        token: the fencing token of this run.
    """

    cause: Exception
    token: int


@dataclass(frozen=True, slots=True)
class LeaseLost(Generic[T]):
    """The lease ended before the action did: another may have held the name meanwhile.

    Attributes:
        value: what the action returned, if it came to its end all the same; else None.
        cause: what the action raised, if it raised anything but the cancellation by which it was told; else None.
        token: the fencing token of this run: dead now.
    """

    value: T | None
    cause: BaseException | None
    token: int


@dataclass(frozen=True, slots=True)
class Unled(Generic[T]):
    """The action ran *without* a lease: the cluster was unavailable, and ``failure_mode="run_anyway"`` of a decorator let it run.

    It has no token: others may have run it at the same time.

    Attributes:
        value: what the action returned, if it came to its end; else None.
        cause: what the action raised, if it raised; else None.
        outage: why the name could not be asked for.
    """

    value: T | None
    cause: Exception | None
    outage: CoordinationError


RunResult: TypeAlias = Elected[T] | Skipped | ActionFailed | LeaseLost[T]
