"""What strategic electors add to an elector: who chooses, as whom it stands, and for which names.

Knows: strategies, candidacies and how long they last. Must not know: actions, endings, how a claim is made (the coordinator).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cluster.client import Candidacy, CandidateInfo, Coordinator, candidates, checks
from cluster.client.values import WORKER_VERSION
from cluster.errors import UsageError
from cluster.limits import LEASE_MAX_MS
from tenure._asking import OneLeader
from tenure._engine import Run
from tenure._history import History
from tenure.listeners import ElectionListener
from tenure.metrics import Metrics
from tenure.options import ElectionOptions
from tenure.strategies import FifoStrategy, Strategy

TTL_S: Final = 30.0
CLAIM_TIMEOUT_S: Final = 1.0


class Kept:
    """The candidacies of one elector, and of the same elector for tenants, by stored name. Safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, Candidacy] = {}
        self.closed = False

    def has(self, stored: str) -> bool:
        """Whether it stands for the name. Raises UsageError once it was closed."""
        if self.closed:
            raise UsageError(f"{stored!r}: this elector is closed, and stands for nothing any more", "make another one")
        return stored in self._by_name

    def add(self, stored: str, candidacy: Candidacy) -> None:
        with self._lock:
            kept = candidacy if self.closed else self._by_name.setdefault(stored, candidacy)
        # Another caller was first: one registration stands for both.
        if kept is not candidacy or self.closed:
            candidacy.close()

    def close(self) -> None:
        with self._lock:
            self.closed = True
            kept = list(self._by_name.values())
            self._by_name.clear()
        for candidacy in kept:
            candidacy.close()


class Standing(OneLeader):
    """The part that the blocking and the asyncio form share."""

    def __init__(
        self,
        coordinator: Coordinator,
        options: ElectionOptions | None = None,
        *,
        strategy: Strategy | None = None,
        weight: float = 1.0,
        rank: int = 0,
        metadata: Mapping[str, Any] | None = None,
        ttl: checks.Seconds = TTL_S,
        claim_timeout: checks.Seconds = CLAIM_TIMEOUT_S,
        listeners: Iterable[ElectionListener] = (),
        history: History | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__(coordinator, options, listeners=listeners, history=history, metrics=metrics)
        strategy = FifoStrategy() if strategy is None else strategy
        candidates.checked_strategy(strategy)
        who = super()._as_whom()
        words: Any = {} if metadata is None else metadata
        if self.options.worker_version is not None and isinstance(words, Mapping):
            words = {**words, WORKER_VERSION: self.options.worker_version}
        self._candidate = CandidateInfo(coordinator.node_id if who is None else who, weight, rank, words)
        candidates.checked(self._candidate)
        checks.lease_ms(ttl, "ttl")
        self.claim_ms = checks.duration_ms(claim_timeout, "claim_timeout", 0, LEASE_MAX_MS)
        self._strategy = strategy
        self._ttl = ttl
        self._claim_timeout = claim_timeout
        # Shared with the twins that ``for_tenant`` makes.
        self._kept = Kept()

    @property
    def node_id(self) -> str:
        """As whom this elector stands and leads."""
        return self._candidate.node_id

    def close(self) -> None:
        """Stand for nothing any more, soon: nothing is waited for, and what runs goes on. Tenants' twins end with it. Idempotent."""
        self._kept.close()

    def _request(self) -> dict[str, Any]:
        request = super()._request()
        del request["max_leaders"]
        return {**request, "strategy": self._strategy, "claim_timeout": self._claim_timeout}

    def _as_whom(self) -> str:
        return self.node_id

    def _new_run(self, name: str) -> Run[Any]:
        run = super()._new_run(name)
        run.elective = True
        return run
