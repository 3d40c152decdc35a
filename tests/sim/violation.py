"""What a check raises.

Knows, and must know, nothing else.
"""

from __future__ import annotations


class Violation(AssertionError):
    """An invariant does not hold."""
