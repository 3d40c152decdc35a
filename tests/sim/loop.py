"""An asyncio loop in virtual time: it never waits, it jumps to the next timer.

Knows: asyncio's selector loop and where it would sleep. Must not know: nodes, faults. Prior art: trio's autojump clock.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any


class _JumpingSelector(selectors.BaseSelector):
    """Knows no sockets; instead of waiting for one it moves the loop's clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self._map: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, 0, events, data)
        self._map[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._map.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("the simulation is dead: nothing is scheduled any more")
        self.now += max(0.0, timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._map


class VirtualLoop(asyncio.SelectorEventLoop):
    """``time()`` starts at 0 and moves only when there is nothing else to do."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now
