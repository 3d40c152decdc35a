"""The seam between callers and the I/O thread: hand work over, wait for its result.

Knows: the engine's inbox, waiters, how a client is closed from outside. Must not know: what the work is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from cluster.client import answers
from cluster.client.engine import FLUSH_S, Engine
from cluster.client.handoff import LoopWaiter, ThreadWaiter
from cluster.client.host import IoThread, Leaver, at_exit, forget_exit

logger = logging.getLogger(__name__)

EXIT_S: Final = 1.5
CLOSE_GRACE_S: Final = 1.0


class Port(Leaver):
    """One engine, as callers' threads and loops see it.

    ``io`` is the thread that belongs to this client, if one does: it ends with it. ``at_close`` is run on the engine's loop once the client
    has stopped, before the thread ends.
    """

    def __init__(self, engine: Engine, timeout_s: float, io: IoThread | None, at_close: Callable[[], object] | None) -> None:
        self.engine = engine
        self.timeout_s = timeout_s
        self._io = io
        self._at_close = at_close
        at_exit(self)

    def hand_over(self, work: Callable[..., object], *args: Any) -> bool:
        """Run ``work`` on the I/O thread soon. False: it has ended."""
        try:
            self.engine.post(work, *args)
        except RuntimeError:
            return False
        return True

    def alive(self) -> bool:
        return not self.engine.stopped and (self._io is None or self._io.alive)

    def wait(self, waiter: ThreadWaiter) -> Any:
        try:
            return waiter.wait(self.alive)
        except RuntimeError as error:
            raise answers.broken("the coordinator", error) from error

    def close(self, limit_s: float) -> None:
        """See ``Engine.begin_close``; from any thread but the I/O thread. Who is interrupted does not wait for the end, which comes."""
        try:
            waiter = ThreadWaiter()
            if self._begin_close(limit_s, tell=True, done=lambda: waiter.finish(None)):
                waiter.patience(limit_s + FLUSH_S + CLOSE_GRACE_S)
        except BaseException:
            self.close_soon(limit_s)
            raise
        self._end()

    async def close_async(self, limit_s: float) -> None:
        """``close`` for a task; cancelled, it is like one that is interrupted."""
        try:
            waiter = LoopWaiter()
            if self._begin_close(limit_s, tell=True, done=lambda: waiter.finish(None)):
                await waiter.future
        except BaseException:
            self.close_soon(limit_s)
            raise
        self._end()

    def close_soon(self, limit_s: float) -> None:
        """Begin to close, or go on with it, and do not wait: its thread ends itself. From any thread."""
        if not self._begin_close(limit_s, tell=True, done=self._end):
            self._end()

    def leave(self) -> None:
        """The interpreter ends: what was released or given up is still said, what is held is left alone."""
        waiter = ThreadWaiter()
        if self._begin_close(0.0, tell=False, done=lambda: waiter.finish(None)):
            waiter.patience(EXIT_S)

    def _begin_close(self, limit_s: float, *, tell: bool, done: Callable[[], object]) -> bool:
        def stopped() -> None:
            # Whoever closes first runs it; the engine stops once.
            at_close, self._at_close = self._at_close, None
            if at_close is not None:
                try:
                    at_close()
                except Exception:
                    logger.exception("client.at_close_failed")
            done()

        return self.alive() and self.hand_over(lambda: self.engine.begin_close(limit_s, tell=tell, done=stopped))

    def _end(self) -> None:
        forget_exit(self)
        if self._io is not None:
            self._io.stop()

