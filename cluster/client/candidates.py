"""Who stands for a name, as values; and as the bytes in which they travel.

Knows: what a candidate says of itself and what the cluster counted. Must not know: when it is asked, how one of them is chosen.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from cluster.client import checks
from cluster.client.answers import Answer, number
from cluster.client.values import WORKER_VERSION
from cluster.codec import pack, unpack
from cluster.errors import UsageError
from cluster.limits import CANDIDATE_INFO_MAX_BYTES, TOKEN_MAX


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

    @property
    def worker_version(self) -> str | None:
        """Which release of its program stands, where it said so."""
        version = self.metadata.get(WORKER_VERSION)
        return version if isinstance(version, str) else None


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


class Placing(Protocol):
    """What an election found: who is in which place, 0 first; None for who cannot be elected."""

    def place_of(self, node_id: str, /) -> int | None: ...


Placing_co = TypeVar("Placing_co", bound=Placing, covariant=True)


class Choosing(Protocol[Placing_co]):
    """A strategy: the same result for the same view."""

    def elect(self, candidates: Candidates, /) -> Placing_co: ...


def checked_strategy(strategy: object) -> None:
    """Raises UsageError for what does not elect."""
    if isinstance(strategy, type) or not callable(getattr(strategy, "elect", None)):
        shown = f"the class {strategy.__name__}" if isinstance(strategy, type) else type(strategy).__name__
        raise UsageError(f"strategy is {shown}", "give a strategy such as tenure.FifoStrategy()")


class Words(NamedTuple):
    """A checked candidate as it is sent."""

    node_id: bytes
    info: bytes


def checked(candidate: object) -> Words:
    """A candidate's own words, as bytes. Raises UsageError."""
    if not isinstance(candidate, CandidateInfo):
        raise UsageError(f"info is {type(candidate).__name__}", "give a CandidateInfo")
    weight, rank = candidate.weight, candidate.rank
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        raise UsageError(f"weight must be a number, not {type(weight).__name__}", "give 0 or more")
    if not 0 <= weight <= sys.float_info.max:
        raise UsageError(f"weight={checks.shown(weight)} is out of range", "give a finite number, 0 or more")
    if isinstance(rank, bool) or not isinstance(rank, int) or abs(rank) > TOKEN_MAX:
        raise UsageError(f"rank={checks.shown(rank)} is no rank", "give an int of at most 53 bits")
    info = pack([float(weight), rank, checks.metadata(candidate.metadata)])
    if len(info) > CANDIDATE_INFO_MAX_BYTES:
        raise UsageError(
            f"weight, rank and metadata have {len(info)} bytes", f"keep them within {CANDIDATE_INFO_MAX_BYTES} bytes"
        )
    return Words(checks.node_id(candidate.node_id), info)


class Look(NamedTuple):
    """A view; seconds until the name is free, and until anything is granted at all, after a restore (0: now); the newest event's number."""

    view: Candidates
    free_in: float
    grants_in: float
    event: int


def read_look(name: str, answer: Answer) -> Look:
    """Raises ValueError for anything that is no such answer."""
    infos = tuple(map(_read_candidate, answer[7]))
    view = Candidates(name, number(answer, 2), number(answer, 1) / 1000, number(answer, 3), infos)
    return Look(view, number(answer, 4) / 1000, number(answer, 5) / 1000, number(answer, 6))


def _read_candidate(row: Any) -> CandidateInfo:
    if type(row) is not list or len(row) != 7 or type(row[0]) is not bytes or type(row[1]) is not bytes:
        raise ValueError("not a candidate")
    weight, rank, metadata = _read_words(row[1])
    started, completed = (None if row[at] is None else number(row, at) / 1000 for at in (3, 4))
    return CandidateInfo(
        row[0].decode("utf-8", "replace"),
        weight,
        rank,
        metadata,
        number(row, 2) / 1000,
        started,
        completed,
        number(row, 5),
        number(row, 6),
    )


def _read_words(info: bytes) -> tuple[float, int, Mapping[str, Any]]:
    """What ``checked`` packed. Another writer's bytes read as a weight that no strategy elects, rather than hiding the others."""
    try:
        weight, rank, metadata = unpack(info)
    except (ValueError, TypeError):
        return math.nan, 0, {}
    if type(weight) is not float or type(rank) is not int or type(metadata) is not bytes:
        return math.nan, 0, {}
    return weight, rank, checks.read_metadata(metadata)
