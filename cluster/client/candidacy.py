"""Standing for a name: registered, and kept so until nobody in this process wants it any more.

Knows: when a registration is renewed, what its answers mean. Must not know: strategies, leases, connections.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from cluster.client import answers
from cluster.client.answers import Answer
from cluster.client.call import Call
from cluster.client.candidates import Words
from cluster.client.errands import PlainCall
from cluster.client.handoff import Waiter
from cluster.env import process_id
from cluster.opcodes import Op, Status
from cluster.ports import Handle

if TYPE_CHECKING:
    from cluster.client.engine import Engine
    from cluster.client.port import Port

logger = logging.getLogger(__name__)

BEATS_PER_TTL: Final = 3
UNREGISTER_S: Final = 5.0


class BeatCall(Call):
    """Renews one registration, or makes it anew where the cluster does not know it any more."""

    background = True

    def __init__(self, beat: Beat) -> None:
        self._beat = beat

    def operation(self, now: float) -> Sequence[Any]:
        beat = self._beat
        if beat.registered:
            return (int(Op.CANDIDATE_REFRESH), beat.name, beat.words.node_id, beat.ttl_ms)
        return (int(Op.CANDIDATE_REGISTER), beat.name, beat.words.node_id, beat.ttl_ms, beat.words.info)

    def again(self) -> bool:
        return not self._beat.ended

    def answered(self, answer: Answer, base: float) -> None:
        self._beat.answered(answer)

    def broken(self) -> None:
        self._beat.rest()

    def overdue(self, unknown: bool) -> float | None:
        self._beat.rest()
        return None


class GoneCall(Call):
    """Takes one registration back, for nobody who waits. Listed in ``leaving`` while it is under way."""

    background = True

    def __init__(self, key: tuple[bytes, bytes], leaving: dict[tuple[bytes, bytes], GoneCall]) -> None:
        self._key = key
        self._leaving = leaving

    def operation(self, now: float) -> Sequence[Any]:
        return (int(Op.CANDIDATE_UNREGISTER), *self._key)

    def answered(self, answer: Answer, base: float) -> None:
        self._settled()

    def broken(self) -> None:
        self._settled()

    def overdue(self, unknown: bool) -> float | None:
        self._settled()
        return None

    def stopped(self) -> None:
        self._settled()

    def _settled(self) -> None:
        if self._leaving.get(self._key) is self:
            del self._leaving[self._key]


class Beat:
    """One registration of this process. On the I/O thread; ``users``: how many candidacies stand on it."""

    def __init__(self, engine: Engine, name: bytes, words: Words, ttl_ms: int) -> None:
        self._engine = engine
        self._timer: Handle | None = None
        self._call: BeatCall | None = None
        self.name = name
        self.words = words
        self.ttl_ms = ttl_ms
        self.users = 0
        self.registered = False
        self.ended = False

    def rest(self) -> None:
        """Until the next beat."""
        self._call = None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self.ended else self._engine.call_later(self.ttl_ms / 1000 / BEATS_PER_TTL, self._renew)

    def _renew(self) -> None:
        self._timer = None
        if not self.ended and self._call is None:
            self._call = BeatCall(self)
            self._engine.submit(self._call, self._engine.clock() + self.ttl_ms / 1000 / BEATS_PER_TTL)

    def answered(self, answer: Answer) -> None:
        self._call = None
        if answer[0] == Status.NOT_HELD and self.registered:
            self.lapsed()
            return
        self.registered = answer[0] == Status.OK
        if not self.registered:
            logger.warning(
                "candidate.refused name=%s node_id=%s answer=%s", self.name.decode("ascii"), self.shown, answer
            )
        self.rest()

    def began(self) -> None:
        """It was registered by who asked for it."""
        self.registered = True
        if self._call is None:
            self.rest()

    def lapsed(self) -> None:
        """It ran out, as after a long outage: it stands anew, with nothing counted."""
        if self.registered and self._call is None:
            logger.warning("candidate.lapsed name=%s node_id=%s", self.name.decode("ascii"), self.shown)
            self.registered = False
            if self._timer is not None:
                self._timer.cancel()
            self._renew()

    @property
    def shown(self) -> str:
        return self.words.node_id.decode("utf-8", "replace")

    def end(self) -> None:
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._call is not None:
            self._engine.withdraw(self._call)
            self._call = None


class Beats:
    """All registrations that this client keeps, by (name, node id). On the I/O thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._all: dict[tuple[bytes, bytes], Beat] = {}
        self._leaving: dict[tuple[bytes, bytes], GoneCall] = {}

    def __len__(self) -> int:
        return len(self._all)

    def join(self, name: bytes, words: Words, ttl_ms: int) -> Beat:
        """One more user, who registers it now. What is under way to take an earlier registration back must not take this one."""
        key = (name, words.node_id)
        leaving = self._leaving.pop(key, None)
        if leaving is not None:
            self._engine.withdraw(leaving)
        beat = self._all.get(key)
        if beat is None:
            beat = self._all[key] = Beat(self._engine, name, words, ttl_ms)
        beat.words, beat.ttl_ms = words, ttl_ms
        beat.users += 1
        return beat

    def drop(self, beat: Beat) -> None:
        """One user less; after the last one it is unregistered."""
        beat.users -= 1
        if beat.users == 0 and not beat.ended:
            self._end(beat)

    def lapsed(self, name: bytes, node_id: bytes) -> None:
        """The cluster does not know a candidate. If it is one of ours, it is registered again at once."""
        beat = self._all.get((name, node_id))
        if beat is not None:
            beat.lapsed()

    def end_all(self) -> None:
        """The client closes."""
        for beat in list(self._all.values()):
            self._end(beat)

    def _end(self, beat: Beat) -> None:
        beat.end()
        key = (beat.name, beat.words.node_id)
        del self._all[key]
        gone = self._leaving[key] = GoneCall(key, self._leaving)
        self._engine.submit_errand(gone, self._engine.clock() + UNREGISTER_S)


class Candidacy:
    """One user of a registration; got by ``keep_candidate``. Closed by ``close``, or when it is forgotten.

    Attributes:
        name: what it stands for, as stored.
        node_id: as whom.
    """

    def __init__(self, port: Port, beat: Beat) -> None:
        self.name = beat.name.decode("ascii")
        self.node_id = beat.shown
        self._finalizer = weakref.finalize(self, _let_go, port, beat)
        self._finalizer.atexit = False

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    def close(self) -> None:
        """Stand no more, soon: nothing is waited for. Idempotent."""
        self._finalizer()

    def __enter__(self) -> Candidacy:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


def _let_go(port: Port, beat: Beat) -> None:
    # A forked child has a copy of its parent's candidacy, which is nothing that it may end.
    if port.engine.process == process_id():
        port.hand_over(port.engine.beats.drop, beat)


class KeepCall(PlainCall):
    """Registers, and keeps registered from then on. The waiter gets a ``Candidacy``."""

    _candidacy: Candidacy | None = None

    def __init__(self, port: Port, name: bytes, words: Words, ttl_ms: int, timeout_s: float, waiter: Waiter) -> None:
        op = (int(Op.CANDIDATE_REGISTER), name, words.node_id, ttl_ms, words.info)
        super().__init__(port.engine, f"register a candidate for {name.decode('ascii')!r}", op, _nothing, timeout_s, waiter)
        self._port = port
        self._asked = (name, words, ttl_ms)

    def begin(self) -> None:
        if self._engine.closing:
            self._waiter.finish(None, answers.closing(self._about))
            return
        # Joined before it is sent, and given up by being forgotten, whatever becomes of this call.
        self._beat = self._engine.beats.join(*self._asked)
        self._candidacy = Candidacy(self._port, self._beat)
        super().begin()

    def answered(self, answer: Answer, base: float) -> None:
        candidacy, self._candidacy = self._candidacy, None
        if answer[0] != Status.OK:
            super().answered(answer, base)
            return
        if not self._beat.ended:
            self._beat.began()
        self._waiter.finish(candidacy)


def _nothing(answer: Answer) -> None:
    """An OK that says no more."""
