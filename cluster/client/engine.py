"""The I/O side of a coordinator: hands over between threads, and keeps the books of what this process holds.

Knows: the inbox, the leases of this client and their timers, how a client ends. Must not know: what callers see (``coordinator``,
``lease``), how calls are sent (``calls``).

Callers' threads put work into a deque and wake the loop once per burst; everything else happens on the I/O thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from cluster.client.attempt import AcquireCall
from cluster.client.call import Call
from cluster.client.calls import Dispatcher
from cluster.client.candidacy import Beats
from cluster.client.core import WARN_AT, LeaseCore
from cluster.client.door import Door
from cluster.client.errands import AbandonCall, ContactCall
from cluster.client.sessions import Session, Sessions
from cluster.env import default_node_id, in_forked_children, process_id
from cluster.errors import UsageError
from cluster.limits import CLOCK_DRIFT, NODE_ID_MAX_BYTES
from cluster.opcodes import Push
from cluster.ports import Env, Handle, Hello

if TYPE_CHECKING:
    from cluster.client.electing import Rest
    from cluster.client.watch import WatchCall

logger = logging.getLogger(__name__)

# What a failover may lengthen a lease by, and the way of the last frames.
EXPIRY_SLACK_S: Final = 5.0
CLOSE_POLL_S: Final = 0.01
FLUSH_S: Final = 1.0
ID_BYTES: Final = 16
IDS_AT_ONCE: Final = 64


class Engine(Dispatcher):
    """One client.

    Attributes:
        node_id: what people see of this process, if an acquisition says nothing else.
        closing: nothing new is taken.
        newest_number: the largest token or version that the cluster gave out as far as this client has heard.
        stopped: nothing is sent any more.
        thread: the I/O thread's identity, once it has run.
    """

    def __init__(self, env: Env, door: Door, node_id: str | None, role: str = "client") -> None:
        shown = node_id if node_id is not None else default_node_id()
        client_id = env.entropy(16)
        super().__init__(env, door, Hello(role, shown[:NODE_ID_MAX_BYTES], client_id))
        self.clock = env.clock
        self.guard = threading.RLock()
        self.node_id = shown.encode("utf-8", "replace")[:NODE_ID_MAX_BYTES]
        self.process = process_id()
        self.thread = 0
        self.closing = False
        self.stopped = False
        _engines.add(self)
        self.contact: ContactCall | None = None
        self.sessions = Sessions(self)
        self.leases: dict[int, LeaseCore] = {}
        self.beats = Beats(self)
        self.attempts: dict[AcquireCall | Rest | WatchCall, None] = {}
        self._inbox: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._woken = False
        self._closing_timer: Handle | None = None
        self._on_stopped: list[Callable[[], None]] = []
        self._ids: deque[bytes] = deque()
        self.newest_number = 0

    # From any thread.

    def post(self, work: Callable[..., object], *args: Any) -> None:
        """Run ``work`` on the I/O thread. Raises RuntimeError if its loop is gone."""
        self._inbox.append((work, args))
        # Read after the append, and cleared before the other side takes anything: no item is left without a wake-up.
        if not self._woken:
            try:
                self._woken = True
                self._env.call_from_thread(self._drain)
            except BaseException:
                # A loop that is gone: the next one must find out too. Ctrl-C in between: the next one must wake it.
                self._woken = False
                raise

    def check_process(self) -> None:
        """Raises UsageError in a child of the process that made this client."""
        if process_id() != self.process:
            raise UsageError(
                f"this coordinator belongs to process {self.process}, and was carried into another by fork",
                "let each process open its own, after the fork",
            )

    def blocks_itself(self) -> bool:
        """Whether who blocks here would wait for itself: on the I/O thread, and where a collector or a signal handler runs under the
        guard, which that thread needs to go on."""
        # Asked as ``threading.Condition`` asks its lock.
        return threading.get_ident() == self.thread or bool(self.guard._is_owned())  # type: ignore[attr-defined]

    def check_blocking(self) -> None:
        """Raises UsageError where blocking would wait for itself."""
        if self.blocks_itself():
            raise UsageError("a blocking call on the coordinator's own I/O thread would never end", "use coordinator.aio there")

    def lease_over(self, core: LeaseCore, reason: str) -> None:
        """See ``core.Owner``: a look found that the time is over. The looker knows at once; the others hear of it soon."""
        if core.end(reason, told=True):
            try:
                self.post(self._after_loss, core)
            except RuntimeError:
                # The loop is gone, and with it the timers; only the waiting threads are left to be told.
                self._tell(core)

    # On the I/O thread.

    def _drain(self) -> None:
        self.thread = threading.get_ident()
        self._woken = False
        self.hold_pump()
        inbox = self._inbox
        while inbox:
            work, args = inbox.popleft()
            try:
                work(*args)
            except Exception:
                logger.exception("client.broke in=%s", getattr(work, "__qualname__", work))
                self._fail_caller(work)
        self.pump()

    def _fail_caller(self, work: Callable[..., object]) -> None:
        """A bug of ours must not leave its caller waiting for ever."""
        call = getattr(work, "__self__", None)
        if isinstance(call, Call):
            self.withdraw(call)
            call.broken()

    def new_id(self) -> bytes:
        """An acquisition id: 16 unpredictable bytes. From any thread."""
        try:
            return self._ids.popleft()
        except IndexError:
            # Many at a time: asking the system for each would cost a call per acquisition. A forked child is refused before it gets here.
            block = self._env.entropy(ID_BYTES * IDS_AT_ONCE)
            self._ids.extend(block[at : at + ID_BYTES] for at in range(ID_BYTES, len(block), ID_BYTES))
            return block[:ID_BYTES]

    def note_number(self, number: int) -> None:
        """The cluster has given this token or version out."""
        if number > self.newest_number:
            self.newest_number = number

    def wall(self) -> float:
        return self._env.wall()

    @property
    def random(self) -> Random:
        return self._env.random

    def call_later(self, delay_s: float, work: Callable[..., object], *args: object) -> Handle:
        return self._env.call_later(delay_s, work, *args)

    def date(self, call: Call, deadline: float) -> None:
        """Move a call's deadline."""
        call.deadline = deadline
        self._deadlines.set(call, deadline)

    def expiry(self, lease_ms: int) -> float:
        """When a lease granted or extended by now has certainly ended in the cluster, without a failover longer than the slack."""
        return self.clock() + lease_ms / 1000 * (1 + CLOCK_DRIFT) + EXPIRY_SLACK_S

    def submit_errand(self, call: Call, until: float) -> None:
        """Something to do for nobody, which is not worth an error when there is no time left for it."""
        if not self.stopped:
            self.submit(call, until)

    # The books.

    def track(self, core: LeaseCore, session: Session | None) -> None:
        """A lease was granted and is about to be handed over."""
        self.leases[core.token] = core
        self.held = len(self.leases)
        self.note_number(core.token)
        if logger.isEnabledFor(logging.INFO):
            logger.info("lease.granted name=%s slot=%d token=%d", core.shown, core.slot, core.token)
        if core.reason:
            self._after_loss(core)
        elif session is not None and not session.ended:
            core.session = session
            session.attach(core)
        else:
            self._watch(core)

    def untrack(self, core: LeaseCore) -> None:
        """No timer, no renewal for it any more."""
        if self.leases.get(core.token) is core:
            del self.leases[core.token]
            self.held = len(self.leases)
        if core.timer is not None:
            core.timer.cancel()
            core.timer = None
        if core.session is not None:
            core.session.detach(core)
        for callback in core.lost.take_callbacks():
            self._call(callback)

    def prolong(self, core: LeaseCore, deadline: float) -> None:
        """An extension was answered. Its timer, set for an earlier time, will look again by itself."""
        core.own_deadline = max(core.own_deadline, deadline)
        core.warned = False

    def lose(self, core: LeaseCore, reason: str) -> None:
        """It is over, against its holder's will."""
        core.end(reason, told=True)
        self._after_loss(core)

    def _after_loss(self, core: LeaseCore) -> None:
        if self.leases.get(core.token) is core and core.told:
            logger.warning("lease.lost name=%s slot=%d token=%d reason=%s", core.shown, core.slot, core.token, core.reason)
        self.untrack(core)

    def _tell(self, core: LeaseCore) -> None:
        for callback in core.lost.take_callbacks():
            self._call(callback)

    def _call(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception:
            logger.exception("lease.callback_raised callback=%r", callback)

    def _watch(self, core: LeaseCore) -> None:
        """The timer of a lease without session: a warning near its end, and the end."""
        core.timer = None
        if core.over():
            self._after_loss(core)
            return
        now, deadline = self.clock(), core.deadline()
        warn_at = deadline - core.lease_ms / 1000 * (1 - WARN_AT)
        if not core.auto_extend and not core.warned:
            if now >= warn_at:
                core.warned = True
                core.warnings += 1
                logger.warning(
                    "lease.nearly_over name=%s token=%d remaining_s=%.3f hint=it is not auto-extended",
                    core.shown, core.token, deadline - now,
                )  # fmt: skip
            else:
                deadline = warn_at
        core.timer = self._env.call_later(max(0.0, deadline - now), self._watch, core)

    def let_go(self, cores: Sequence[LeaseCore]) -> None:
        """Granted to a caller that is gone."""
        first = cores[0]
        for core in cores:
            core.give_back()
            self.untrack(core)
        names = [core.name for core in cores]
        self.submit_errand(AbandonCall(self, first.acq_id, names, first.lease_ms, first.session), self.expiry(first.lease_ms))

    # What the dispatcher tells.

    def pushed(self, push: list[Any]) -> None:
        if push[0] == Push.REVOKED and len(push) >= 4 and type(push[3]) is int:
            core = self.leases.get(push[3])
            if core is not None and core.name == push[1]:
                self.lose(core, "revoked")

    def time_jumped(self) -> None:
        for session in self.sessions.all():
            session.look_now()
        for core in list(self.leases.values()):
            if core.over():
                self._after_loss(core)

    def cluster_changed(self) -> None:
        self.sessions.end_all("cluster_changed")
        for core in list(self.leases.values()):
            self.lose(core, "cluster_changed")

    def dial_failed(self) -> None:
        if self.contact is not None:
            self.contact.dial_failed()

    # The end.

    def begin_close(self, limit_s: float, *, tell: bool, done: Callable[[], None]) -> None:
        """Close in steps: refuse what is new, tell who holds, wait for the holders within ``limit_s``, send what is left to say, stop.

        Leases that are still held then run out by themselves: nothing is released under running work.
        """
        if self.stopped:
            done()
            return
        self._on_stopped.append(done)
        if self.closing:
            return
        self.closing = True
        for attempt in list(self.attempts):
            attempt.close()
        self.beats.end_all()
        if tell:
            for core in list(self.leases.values()):
                if core.end("closing", told=True):
                    logger.warning("lease.closing name=%s token=%d", core.shown, core.token)
                    # Not untracked: it stays renewed while its work ends.
                    self._tell(core)
        self._closing(self.clock() + limit_s, 0.0)

    def _closing(self, until: float, flush_until: float) -> None:
        self._closing_timer = None
        now = self.clock()
        for core in list(self.leases.values()):
            if now >= core.deadline():
                self.untrack(core)
        if self.leases and now < until:
            pass
        elif not flush_until:
            if self.leases:
                logger.warning("client.closed_with_leases count=%d: they run out by themselves", len(self.leases))
                for core in list(self.leases.values()):
                    self.untrack(core)
            flush_until = now + FLUSH_S
        if flush_until and (not self.live or now >= flush_until):
            self.stop()
            return
        self._closing_timer = self._env.call_later(CLOSE_POLL_S, self._closing, until, flush_until)

    def stop(self) -> None:
        """For good, now."""
        if self.stopped:
            return
        self.stopped = self.closing = True
        if self._closing_timer is not None:
            self._closing_timer.cancel()
        for core in list(self.leases.values()):
            core.end("closing", told=True)
            self.untrack(core)
        self.sessions.end_all("closing")
        self.beats.end_all()
        super().stop()
        # The system gives a thread's identity to a later one.
        self.thread = 0
        for done in self._on_stopped:
            done()
        self._on_stopped.clear()

    def counts(self) -> dict[str, int]:
        """What is there, for tests and for people who look for leaks: all zero but the link's pulse when nothing is held or asked."""
        sessions = self.sessions.all()
        return {
            **super().counts(),
            "leases": len(self.leases),
            "attempts": len(self.attempts),
            "candidacies": len(self.beats),
            "lease_timers": sum(core.timer is not None for core in self.leases.values()),
            "session_timers": sum(session.timers for session in sessions),
            "inbox": len(self._inbox),
        }


def refuse_closed(engine: Engine, about: str) -> None:
    """Raises UsageError if the client takes nothing new."""
    if engine.closing:
        raise UsageError(f"{about}: this coordinator is closed", "open another one")


_engines: WeakSet[Engine] = WeakSet()


def _disown() -> None:
    """In a forked child: what the parent holds, renews and releases is nothing that this process may act on."""
    for engine in list(_engines):
        # The parent's other threads, one of which may have been in it, are not here.
        engine.guard = threading.RLock()
        for core in list(engine.leases.values()):
            if not core.reason:
                core.told, core.reason = True, "forked"


in_forked_children(_disown)
