"""An acquisition by election: look at the candidates, let the strategy choose, claim, rest, look again.

Knows: when to claim, how long to rest, what each refusal means. Must not know: strategies, frames, who waits or how. What is decided
here never grants: the log does, against the very view that was looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cluster.client import answers, checks
from cluster.client.answers import Answer
from cluster.client.attempt import AcquireCall, Phase
from cluster.client.candidates import Candidates, Choosing, Look, Placing, checked_strategy, read_look
from cluster.client.errands import PlainCall, ReadCall
from cluster.client.handoff import Waiter
from cluster.client.watch import Page, WatchCall
from cluster.client.watched import WatchGap
from cluster.errors import UsageError
from cluster.limits import LEASE_MAX_MS
from cluster.opcodes import Op, Status
from cluster.ports import Handle

if TYPE_CHECKING:
    from cluster.client.engine import Engine
    from cluster.client.port import Port
    from cluster.client.requests import Requests

# How often a caller looks again while the name is free and another is before it; a look is answered from the raft leader's memory.
LOOK_EVERY_S: Final = 0.1
# While the name is held, an event wakes it; this is for what is no event, and for events that are missed.
HELD_LOOK_EVERY_S: Final = 1.0
# A roster that changes at every look must not keep its caller busy.
OVERTAKEN_MAX: Final = 3
_REFUSALS: Final = (Status.NOT_HELD, Status.VERSION_DIFFERS, Status.NOT_YOUR_TURN)


class Claim(NamedTuple):
    """See ELECT in docs/protocol.md."""

    revision: int
    size: int
    place: int
    claim_ms: int


class ClaimCall(AcquireCall):
    """One claim. What the log has against it, besides that the name is held, is kept in ``refused``; the waiter gets None."""

    refused: Answer = []  # noqa: RUF012  (replaced, never changed)

    def __init__(
        self, engine: Engine, spec: checks.AcquireSpec, claim: Claim, acq_id: bytes, timeout_s: float, waiter: Waiter
    ) -> None:
        super().__init__(engine, spec, acq_id, timeout_s, waiter, many=False)
        self._claim = claim

    def operation(self, now: float) -> Sequence[Any]:
        return (int(Op.ELECT), *super().operation(now)[1:], *self._claim)

    def answered(self, answer: Answer, base: float) -> None:
        if answer[0] in _REFUSALS and self.phase is not Phase.ORPHAN:
            self.refused = answer
            if answer[0] == Status.NOT_HELD:
                self._engine.beats.lapsed(self.spec.names[0], self.spec.node_id)
            self._deliver(None)
        else:
            super().answered(answer, base)


class Rest:
    """A pause by the env's clock, ended early by an event of the name, if asked for, and when the coordinator closes.

    Args:
        after: the number of the last event that was seen; None: events end nothing.
    """

    def __init__(self, engine: Engine, pause_s: float, waiter: Waiter, name: bytes, after: int | None) -> None:
        self._engine = engine
        self._pause_s = pause_s
        self._waiter: Waiter | None = waiter
        self._name = name
        self._after = after
        self._timer: Handle | None = None
        self._watch: WatchCall | None = None

    def begin(self) -> None:
        if self._waiter is None:
            return
        if self._engine.closing:
            self.close()
            return
        self._engine.attempts[self] = None
        self._timer = self._engine.call_later(self._pause_s, self._end)
        self._watch_on()

    def _watch_on(self) -> None:
        if self._after is not None:
            self._watch = WatchCall(self._engine, self._name, self._after, False, self)
            self._watch.begin()

    def finish(self, page: Page | None, error: BaseException | None = None) -> bool:
        """The watch's answer. Without one the timer goes on alone."""
        self._watch = None
        if self._waiter is None or page is None:
            return False
        told, self._after = page
        # A watch is for all names that begin like this one.
        shown = self._name.decode("ascii")
        if any(isinstance(each, WatchGap) or each.name == shown for each in told):
            self._end()
        else:
            self._watch_on()
        return True

    def give_up(self) -> None:
        self._waiter = None
        if self._timer is not None:
            self._timer.cancel()
        self._engine.attempts.pop(self, None)
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.leave()

    def _end(self, error: BaseException | None = None) -> None:
        waiter = self._waiter
        self.give_up()
        if waiter is not None:
            waiter.finish(None, error)

    def close(self) -> None:
        self._end(answers.closing("acquire"))


class Candidature:
    """One caller's way to a name. ``look`` and ``rest`` make requests; ``choose`` runs the strategy, in the caller's thread or task.

    Raises UsageError when it is made.
    """

    def __init__(
        self,
        requests: Requests,
        port: Port,
        name: str,
        strategy: Choosing[Placing],
        claim_timeout: object,
        spec: checks.AcquireSpec,
        timeout: object,
    ) -> None:
        self._requests = requests
        self._port = port
        self._engine = port.engine
        checked_strategy(strategy)
        self._name = name
        self._strategy = strategy
        self._claim_ms = checks.duration_ms(claim_timeout, "claim_timeout", 0, LEASE_MAX_MS)
        self._spec = spec._replace(wait_ms=0)
        self._node_id = spec.node_id.decode("utf-8", "replace")
        self._timeout_s = requests.timeout_s(timeout)
        self._until = port.engine.clock() + spec.wait_ms / 1000
        # All that is asked shares the time for finding out, which begins to run out when the wait is over.
        self._limit = self._until + self._timeout_s
        self._overtaken = 0
        self._hint_s = LOOK_EVERY_S
        self._grants_in_ms = 0
        self._watch_after: int | None = None
        requests.check("acquire")

    def look(self, waiter: Waiter) -> PlainCall:
        op = (int(Op.CANDIDATES), self._name.encode("ascii"))
        about = f"acquire {self._name!r}"
        return ReadCall(
            self._engine, about, op, lambda answer: read_look(self._name, answer), self._patience_s(), waiter
        )

    def _patience_s(self) -> float:
        return max(checks.TIMEOUT_MIN_S, min(self._timeout_s, self._limit - self._engine.clock()))

    def choose(self, look: Look, waiter: Waiter) -> ClaimCall | None:
        """The claim to be made now, if this node id is to make one."""
        self._hint_s = LOOK_EVERY_S
        self._grants_in_ms = round(look.grants_in * 1000)
        self._watch_after = look.event if look.free_in else None
        if look.free_in:
            self._hint_s = min(look.free_in, HELD_LOOK_EVERY_S)
            return None
        if all(info.node_id != self._node_id for info in look.view):
            self._port.hand_over(self._engine.beats.lapsed, self._spec.names[0], self._spec.node_id)
            return None
        place = self._place(look.view)
        if place is None:
            return None
        claim = Claim(look.view.revision, len(look.view), place, self._claim_ms)
        return ClaimCall(self._engine, self._spec, claim, self._engine.new_id(), self._patience_s(), waiter)

    def _place(self, view: Candidates) -> int | None:
        """What the strategy says, checked: it is the caller's own code. Raises UsageError, and whatever it raises itself."""
        result = self._strategy.elect(view)
        place_of = getattr(result, "place_of", None)
        if not callable(place_of):
            raise UsageError(
                f"{type(self._strategy).__name__}.elect returned {type(result).__name__}", "return a tenure.ElectionResult"
            )
        place = place_of(self._node_id)
        if place is None or (type(place) is int and 0 <= place < len(view)):
            return place
        raise UsageError(
            f"{type(self._strategy).__name__} says place {place!r} of {len(view)} candidates",
            "give 0 for the winner, 1 for who comes next …, None for who is not elected",
        )

    def refused(self, answer: Answer) -> None:
        """What the log has against a claim; empty: the name is held."""
        if not answer or answer[0] != Status.VERSION_DIFFERS:
            self._overtaken = 0
        if answer and answer[0] == Status.VERSION_DIFFERS:
            self._overtaken += 1
        elif answer and answer[0] == Status.NOT_YOUR_TURN:
            self._hint_s = min(answers.number(answer, 1) / 1000, LOOK_EVERY_S)

    def pause_s(self) -> float | None:
        """Seconds to rest before the next look; None: the time is over. Raises Unavailable if nothing is granted to anybody yet."""
        if 0 < self._overtaken <= OVERTAKEN_MAX:
            return 0.0
        self._overtaken = 0
        left_s = self._until - self._engine.clock()
        if left_s <= 0 and self._grants_in_ms:
            raise answers.refusal([int(Status.NOT_YET), self._grants_in_ms], f"acquire {self._name!r}")
        # A millisecond is cluster time's step: sooner would find the same.
        return None if left_s <= 0 else min(left_s, max(0.001, self._hint_s))

    def rest(self, waiter: Waiter, pause_s: float) -> Rest:
        return Rest(self._engine, pause_s, waiter, self._spec.names[0], self._watch_after)
