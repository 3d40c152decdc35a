"""Helpers that every test may use.

Knows: time and threads. Must not know: the product.
"""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.005


def eventually(predicate: Callable[[], object], within_s: float = 5.0, what: str = "") -> None:
    """Return as soon as ``predicate()`` is true.

    Raises:
        AssertionError: with ``what``, when it was not true within ``within_s`` seconds.
    """
    deadline = time.monotonic() + within_s
    while not predicate():
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {within_s:g} s: {what or predicate}")
        time.sleep(POLL_S)
