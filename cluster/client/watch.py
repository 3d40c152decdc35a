"""Watching: events one after the other, for threads and for tasks.

Knows: where a watch stands, that at most one request of it is under way. Must not know: frames, connections, what the events mean.

The request waits at the raft leader until there is something to tell, and is asked again, from where the watch stands, wherever the link
leads then. So what was not handed out yet is at the nodes, not here: nothing grows while nobody takes it, and nothing is lost with a
connection or with an answer that nobody took.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from cluster.client import answers, checks
from cluster.client.answers import Answer
from cluster.client.call import Call, State
from cluster.client.errands import CancelCall
from cluster.client.handoff import ALIVE_CHECK_S, LoopWaiter, ThreadWaiter, Waiter
from cluster.client.port import Port
from cluster.client.watched import LeaseEvent, WatchGap, read_page
from cluster.env import process_id
from cluster.errors import UsageError
from cluster.opcodes import Op, Status

if TYPE_CHECKING:
    from cluster.client.engine import Engine

# Of a request that may wait for ever: how often the client's clock for it is wound up.
ROUND_S: Final = 3600.0
CANCEL_S: Final = 1.0

Told = LeaseEvent | WatchGap
Page = tuple[list[Told], int]


class WatchCall(Call):
    """Ask for what comes after ``after``. The waiter gets a page, or None when the watch was closed."""

    changes = False
    waits = True

    def __init__(self, engine: Engine, prefix: bytes, after: int, extended: bool, waiter: Waiter) -> None:
        self._engine = engine
        self._id = engine.new_id()
        self._prefix = prefix
        self._after = after
        self._extended = extended
        self._waiter: Waiter | None = waiter

    def begin(self) -> None:
        if self._engine.closing:
            self.stopped()
            return
        self._engine.attempts[self] = None
        self._engine.submit(self, self._engine.clock() + ROUND_S)

    def operation(self, now: float) -> Sequence[Any]:
        return (int(Op.WATCH), self._id, self._prefix, self._after, self._extended)

    def answered(self, answer: Answer, base: float) -> None:
        if answer[0] == Status.OK:
            self._finish(read_page(answer, self._after))
        else:
            self._finish(None, answers.refusal(answer, "watch"))

    def overdue(self, unknown: bool) -> float | None:
        return self._engine.clock() + ROUND_S

    def broken(self) -> None:
        self._finish(None, answers.malformed("watch"))

    def stopped(self) -> None:
        self._finish(None, answers.closing("watch"))

    def leave(self) -> None:
        """Nobody wants its answer any more. On the I/O thread."""
        engine, sent = self._engine, self.state is State.SENT
        engine.withdraw(self)
        if sent and not engine.closing:
            engine.submit_errand(CancelCall(self._id), engine.clock() + CANCEL_S)
        self._finish(None)

    def close(self) -> None:
        """The coordinator closes."""
        self._engine.withdraw(self)
        self.stopped()

    def _finish(self, page: Page | None, error: BaseException | None = None) -> None:
        waiter, self._waiter = self._waiter, None
        self._engine.attempts.pop(self, None)
        if waiter is not None:
            waiter.finish(page, error)


class Standing:
    """Where a watch stands, whoever waits for it."""

    def __init__(self, port: Port, prefix: bytes, after: int, extended: bool, check: Callable[[str], None]) -> None:
        self._port = port
        self._prefix = prefix
        self._extended = extended
        self._check = check
        self._page: deque[Told] = deque()
        self._seen = after
        self._call: WatchCall | None = None
        self._closed = False
        self._sequence = after

    @property
    def sequence(self) -> int:
        """Where to resume: the number of the last event that was handed out, or that was seen not to be asked for."""
        return self._sequence

    @property
    def closed(self) -> bool:
        return self._closed

    def __del__(self) -> None:
        # Not closed by whoever had it. An interrupted ``__init__`` leaves nothing to end.
        call = getattr(self, "_call", None)
        if call is not None and self._port.engine.process == process_id():
            self._port.hand_over(call.leave)

    def _ask(self, waiter: Waiter) -> None:
        """Raises UsageError where nothing can be asked."""
        self._check("watch")
        call = self._call = WatchCall(self._port.engine, self._prefix, self._seen, self._extended, waiter)
        if not self._port.hand_over(call.begin):
            self._call = None
            raise answers.closing("watch")
        if self._closed:
            # Closed meanwhile, by one who saw no request yet.
            self._port.hand_over(call.leave)

    def _take(self) -> Told | None:
        """The next that is here."""
        if not self._page:
            return None
        told = self._page.popleft()
        self._sequence = told.sequence if self._page else self._seen
        return told

    def _arrived(self, page: Page | None) -> Told | None:
        """What the waiter of the request got; the first of it."""
        if page is not None:
            # At once, as far as Ctrl-C can see: what was looked at is here.
            self._page, self._seen = deque(page[0]), page[1]
            if not self._page:
                self._sequence = self._seen
        return self._take()

    def _close(self) -> None:
        self._closed = True
        call = self._call
        if call is not None:
            self._port.hand_over(call.leave)


class Watch(Standing):
    """An iterator over what happens to leases; got by ``Coordinator.watch``. Each step blocks until something happens.

    Iteration ends when it is closed, which any thread may do. It goes on, without a gap, over lost connections, and over elections of raft
    leaders; while no node can be reached it waits. Close it, or use it in a ``with``.
    """

    def __init__(self, port: Port, prefix: bytes, after: int, extended: bool, check: Callable[[str], None]) -> None:
        super().__init__(port, prefix, after, extended, check)
        self._waiter: ThreadWaiter | None = None
        # A thread that is interrupted just as it gets its turn can give it back: of this kind of lock it knows whether it has it.
        self._turn = threading.RLock()
        # The thread whose step is under way.
        self._stepping = 0

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> LeaseEvent | WatchGap:
        """Raises UsageError and Unavailable as ``next``."""
        told = self._next(None)
        if told is None:
            raise StopIteration
        return told

    def next(self, timeout: checks.Seconds | None = None) -> LeaseEvent | WatchGap | None:
        """The next event, or None: nothing happened within ``timeout``, or the watch is closed.

        Args:
            timeout: seconds, 0.001 to 1 day; None: however long it takes.

        Raises:
            UsageError: a bad ``timeout``, a forked child, called on the coordinator's I/O thread, or in a signal handler during a step.
            Unavailable: the coordinator was closed.
            ProtocolError: the node speaks something else.
        """
        return self._next(None if timeout is None else self._port.engine.clock() + checks.timeout_s(timeout))

    def _next(self, until: float | None) -> Told | None:
        """None: it is closed, or nothing happened in time, nor was it this thread's turn."""
        me, clock = threading.get_ident(), self._port.engine.clock
        if self._stepping == me:
            raise UsageError("a step of this watch is under way in this very thread", "open a watch of its own for a signal handler")
        try:
            if not self._turn.acquire(timeout=-1 if until is None else max(0.0, until - clock())):
                return None
            self._stepping = me
            while not self._closed:
                told = self._step(until)
                if told is not None or (until is not None and clock() >= until):
                    return told
            return None
        finally:
            if self._stepping == me:
                self._stepping = 0
            # It was another's turn until the end.
            with contextlib.suppress(RuntimeError):
                self._turn.release()

    def _step(self, until: float | None) -> Told | None:
        """Wait for one answer, at most."""
        port = self._port
        port.engine.check_process()
        told = self._take()
        if told is not None:
            return told
        port.engine.check_blocking()
        if self._waiter is None:
            waiter = ThreadWaiter()
            self._ask(waiter)
            self._waiter = waiter
        waiter = self._waiter
        while not waiter.done:
            left = ALIVE_CHECK_S if until is None else min(ALIVE_CHECK_S, until - port.engine.clock())
            if left <= 0:
                return None
            waiter.patience(left)
            if not waiter.done and not port.alive():
                raise answers.closing("watch")
        self._waiter = self._call = None
        return self._arrived(None if self._closed else waiter.take())

    def close(self) -> None:
        """End the iteration, here and in threads that wait in it. Idempotent."""
        self._close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncWatch(Standing):
    """``Watch`` for tasks of one event loop: Close it, or use it in an ``async with``. Cancelling a step loses nothing."""

    def __init__(self, port: Port, prefix: bytes, after: int, extended: bool, check: Callable[[str], None]) -> None:
        super().__init__(port, prefix, after, extended, check)
        self._waiter: LoopWaiter | None = None

    def __aiter__(self) -> AsyncWatch:
        return self

    async def __anext__(self) -> LeaseEvent | WatchGap:
        """Raises as ``Watch.next``."""
        told = await self.next()
        if told is None:
            raise StopAsyncIteration
        return told

    async def next(self, timeout: checks.Seconds | None = None) -> LeaseEvent | WatchGap | None:
        """See ``Watch.next``."""
        clock = self._port.engine.clock
        until = None if timeout is None else clock() + checks.timeout_s(timeout)
        while not self._closed:
            self._port.engine.check_process()
            told = self._take()
            if told is not None:
                return told
            if self._waiter is None:
                waiter = LoopWaiter()
                self._ask(waiter)
                self._waiter = waiter
            waiter = self._waiter
            if waiter.future.get_loop() is not asyncio.get_running_loop():
                # That loop, and no other, would be told.
                raise UsageError("a step of this watch was begun on another event loop", "open a watch on each, by after=watch.sequence")
            left = None if until is None else max(0.0, until - clock())
            # Unlike ``wait_for`` it leaves the request alone, whatever becomes of this task.
            await asyncio.wait({waiter.future}, timeout=left)
            if not waiter.future.done():
                return None
            if self._waiter is waiter:
                self._waiter = self._call = None
                told = self._arrived(None if self._closed else waiter.future.result())
                if told is not None:
                    return told
        return None

    async def close(self) -> None:
        """See ``Watch.close``."""
        self._close()

    async def __aenter__(self) -> AsyncWatch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
