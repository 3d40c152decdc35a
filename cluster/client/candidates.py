"""Who stands for a name, as values.

Knows: what a candidate says of itself and what the cluster counted. Must not know: how it travelled, how one of them is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class CandidateInfo:
    """One candidate for a name. Times are seconds of cluster time.

    Attributes:
        node_id: whom people see; a name has one candidate of each node id.
        weight: how much it can do, 0 or more; what it means is the strategy's business.
        rank: its place, the lowest first.
        metadata: a mapping that JSON can say.
        registered_at: when it registered; a refresh, or registering again while it lives, does not change it.
        last_start: when it was last granted the name; None: never since it registered.
        last_completion: when a lease of its last ended with work done; None: never since it registered.
        success_count: leases that ended with the work completed.
        failure_count: leases that ended with the work failed or the lease lost.

    The first four are the candidate's own words. The others are counted by the cluster; given to ``register_candidate`` they are ignored.
    """

    node_id: str
    weight: float = 1.0
    rank: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    registered_at: float = 0.0
    last_start: float | None = None
    last_completion: float | None = None
    success_count: int = 0
    failure_count: int = 0


@dataclass(frozen=True, slots=True)
class Candidates:
    """Who stood for a name at one moment, in the order in which they registered: what strategies choose from.

    Attributes:
        name: the name, as it is stored.
        revision: of the name's registry, new and larger at every change but a refresh; 0: nobody stands.
        cluster_time: seconds; the moment.
        last_token: the token of the name's last grant since somebody stood for it; 0: there was none.
        infos: the candidates.

    Two views of one name with the same ``revision`` and as many ``infos`` hold the same candidates with the same counters: between them
    candidates can only have run out, and those never come back under their revision.
    """

    name: str
    revision: int
    cluster_time: float
    last_token: int
    infos: tuple[CandidateInfo, ...]

    def __iter__(self) -> Iterator[CandidateInfo]:
        return iter(self.infos)

    def __len__(self) -> int:
        return len(self.infos)
