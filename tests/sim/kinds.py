"""What a kind of fault and a kind of work is, for the registries (``registry``, ``rounds``).

Knows: what the rest of the simulation asks of them. Must not know: any kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.worker import Worker
    from tests.sim.world import World

Count = Callable[..., None]
"""``count(name, node=None)``: a fault of this name begins, at this node."""


@dataclass(frozen=True)
class Fault:
    """Attributes:
    names: under which it is counted; each is to be covered.
    weight: how often it is drawn, among the weights of all.
    play: does it, undoes it, and returns; what the run's end needs (all nodes up, all links whole) stands then, or after ``Faults.mend``.
    on_nodes: those of the names that should have met a leader and a follower, not just anybody.
    """

    names: tuple[str, ...]
    weight: int
    play: Callable[[World, Count], Awaitable[None]]
    on_nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Work:
    """One round of a client: ``share`` of all rounds. It may raise what the coordinator's verbs raise."""

    name: str
    share: float
    play: Callable[[Worker], Awaitable[None]]
