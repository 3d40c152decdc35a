"""An asyncio loop in virtual time: it never waits, it jumps to the next timer.

Knows: asyncio's base loop, where it would sleep, how it keeps what is to be run. Must not know: nodes, faults. Prior art: trio's autojump
clock.

The base loop's own way (handles in a heap that compares them by Python code, a selector at each step) takes a good part of a simulated
second; here are a queue, a heap of tuples, and handles with little in them. Timers of one moment fire in the order in which they were made.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

STEPS_AT_ONCE_MAX = 1_000_000
"""So many callbacks in one moment, and it will never pass."""


class _Handle:
    """What ``call_soon`` and ``call_at`` return, as far as asyncio and the product use it."""

    __slots__ = ("_args", "_callback", "_context", "_when")

    def __init__(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> None:
        self._when = when
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._context = contextvars.copy_context() if context is None else context

    def cancel(self) -> None:
        self._callback = None
        self._args = ()

    def cancelled(self) -> bool:
        return self._callback is None

    def when(self) -> float:
        return self._when


class VirtualLoop(asyncio.BaseEventLoop):
    """``time()`` starts at 0 and moves only when there is nothing else to do."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._soon: deque[_Handle] = deque()
        self._later: list[tuple[float, int, _Handle]] = []
        self._made = 0
        self._at_once = 0

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: contextvars.Context | None = None
    ) -> Any:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        handle = _Handle(self._now, callback, args, context)
        self._soon.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: Unpack[Ts],
        context: contextvars.Context | None = None,
    ) -> Any:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        handle = _Handle(when, callback, args, context)
        self._made += 1
        heappush(self._later, (when, self._made, handle))
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: Unpack[Ts],
        context: contextvars.Context | None = None,
    ) -> Any:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def _run_once(self) -> None:
        """One step of ``run_forever``: what is due, once; if nothing is, time moves."""
        soon, later = self._soon, self._later
        if not soon:
            while later and later[0][2]._callback is None:
                heappop(later)
            if not later:
                raise RuntimeError("the simulation is dead: nothing is scheduled any more")
            if later[0][0] > self._now:
                self._now = later[0][0]
                self._at_once = 0
        while later and later[0][0] <= self._now:
            soon.append(heappop(later)[2])
        self._at_once += len(soon)
        if self._at_once > STEPS_AT_ONCE_MAX:
            raise RuntimeError(f"the simulation turns in circles at {self._now:.4f} s, in {soon[0]._callback}")
        for _ in range(len(soon)):
            handle = soon.popleft()
            callback = handle._callback
            if callback is not None:
                try:
                    handle._context.run(callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self.call_exception_handler({"message": f"Exception in callback {callback}", "exception": error})

    def _write_to_self(self) -> None:
        """There is nobody to wake: it never sleeps."""

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no sockets."""

    def close(self) -> None:
        self._soon.clear()
        self._later.clear()
        super().close()
