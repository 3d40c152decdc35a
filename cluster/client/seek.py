"""Which node to dial next while the raft leader is looked for: one decision, no I/O.

Knows: addresses, what failed and when, jitter. Must not know: sockets, tasks, operations.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from cluster.client.answers import Trouble
from cluster.errors import CoordinationError

DIALS_MAX: Final = 2
HEDGE_S: Final = 0.15
SCOUT_STALE_S: Final = 1.0
PAUSE_S: Final = 0.1
BACKOFF_FIRST_S: Final = 0.02
BACKOFF_MAX_S: Final = 0.2
# Nobody waits in person: only releases and abandons of a caller that is gone.
BACKGROUND_MAX_S: Final = 5.0


@dataclass(slots=True)
class _Failure:
    text: str
    kind: type[CoordinationError] | None
    count: int
    not_before: float


class Seek:
    """The state of one search.

    Attributes:
        hint: the address that a node named as raft leader, or empty.
        scouting_since: when the connection to a node that does not lead was opened.
    """

    def __init__(self, endpoints: list[str], source: random.Random) -> None:
        self._random = source
        self._endpoints = endpoints
        self._order = list(endpoints)
        source.shuffle(self._order)
        self._failures: dict[str, _Failure] = {}
        self._last_dial = -1e9
        self.hint = ""
        self.scouting_since = 0.0

    def learn(self, addresses: Sequence[str]) -> None:
        """The members have changed: these addresses lead to nodes too, beside the ones that were given."""
        known = [*self._endpoints, *(address for address in addresses if address not in self._endpoints)]
        self._order = [address for address in self._order if address in known]
        self._order += [address for address in known if address not in self._order]

    def begin(self, now: float) -> None:
        """A search begins. A connection that is there, to a node that led until now, has a moment to name the next leader."""
        self.scouting_since = max(self.scouting_since, now - SCOUT_STALE_S + HEDGE_S)

    def next(self, now: float, connected: str, dialling: Collection[str]) -> list[str]:
        """Addresses to dial now.

        The one that was named as leader goes first and at once; without a connection, or with one that has led nowhere for a while,
        the endpoints follow in turn, a second attempt only when the first has taken ``HEDGE_S``.
        """
        chosen: list[str] = []

        def may(address: str) -> bool:
            failure = self._failures.get(address)
            return address != connected and address not in dialling and (failure is None or failure.not_before <= now)

        if self.hint and may(self.hint):
            chosen.append(self.hint)
        busy = len(dialling) + len(chosen)
        wanted = not connected or now - self.scouting_since >= SCOUT_STALE_S
        if wanted and busy < DIALS_MAX and (not busy or now - self._last_dial >= HEDGE_S):
            for _ in range(len(self._order)):
                address = self._order.pop(0)
                self._order.append(address)
                if may(address) and address not in chosen:
                    chosen.append(address)
                    break
        if chosen:
            self._last_dial = now
        return chosen

    def pause_s(self, *, background: bool) -> float:
        longest = BACKGROUND_MAX_S if background else PAUSE_S
        return self._random.uniform(0.2, 1.0) * longest

    def failed(
        self,
        address: str,
        text: str,
        kind: type[CoordinationError] | None,
        now: float,
        *,
        scouting: bool,
        background: bool = False,
    ) -> None:
        """Full jitter: the next attempt at this address is at a random time up to a limit that doubles."""
        old = self._failures.get(address)
        count = old.count + 1 if old is not None else 0
        longest = BACKGROUND_MAX_S if background else BACKOFF_MAX_S
        delay = self._random.uniform(0.0, min(longest, BACKOFF_FIRST_S * 2 ** min(count, 16)))
        self._failures[address] = _Failure(text, kind, count, now + delay)
        if address == self.hint and not scouting:
            self.hint = ""

    def reached(self, address: str, now: float) -> None:
        """The node answers, and does not lead. It is asked again after a pause, like one that failed."""
        self.failed(address, "it knows no raft leader, or leads no more", None, now, scouting=True)

    def found(self, address: str) -> None:
        self._failures.clear()
        self.hint = ""

    def scout_is_stale(self, now: float) -> bool:
        return now - self.scouting_since >= SCOUT_STALE_S

    def all_failed_with(self) -> type[CoordinationError] | None:
        """The kind of error with which every endpoint refused us, if it was one kind for all."""
        kinds = {failure.kind if (failure := self._failures.get(address)) else None for address in self._endpoints}
        return kinds.pop() if len(kinds) == 1 else None

    def trouble(self, connected: str, leading: bool) -> Trouble:
        if leading:
            return Trouble(f"{connected} did not answer")
        parts = [f"{address}: {failure.text}" for address, failure in sorted(self._failures.items())]
        return Trouble("; ".join(parts), self.all_failed_with())
