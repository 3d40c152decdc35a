"""Waiting for a state, without a sleep of fixed length.

Knows: time and predicates. Must not know: the product.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

POLL_S: Final = 0.005


def eventually(predicate: Callable[[], object], within_s: float = 5.0, what: str = "") -> None:
    """Return as soon as ``predicate()`` is true, which is asked every few milliseconds.

    Args:
        predicate: asked on the calling thread.
        within_s: seconds of real time.
        what: what is waited for, for the message.

    Raises:
        AssertionError: with ``what``, when it was not true within ``within_s`` seconds.
    """
    deadline = time.monotonic() + within_s
    while not predicate():
        if not time.monotonic() < deadline:
            raise AssertionError(f"not within {within_s:g} s: {what or predicate}")
        # It may be anything that is waited for: nothing would wake this thread.
        time.sleep(POLL_S)
