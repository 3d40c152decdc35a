"""Helpers that every test may use.

Knows: where they come from. Must not know: what is tested.
"""

from __future__ import annotations

from tenure.testing import eventually

__all__ = ["eventually"]
