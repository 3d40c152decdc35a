"""What people see as the holder of a name: ways to make a ``node_id``.

Knows: parts of a readable identity. Must not know: who owns a lease: that is the id of its acquisition, never this text.

Without any of these a process is ``hostname:pid``. Give ``ElectionOptions(node_id=…)`` a text, or a function such as ``random()``
and ``composed()`` return, which is called at every attempt.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.env import default_node_id, entropy
from cluster.errors import UsageError

__all__ = ["composed", "host_and_pid", "random"]

_RANDOM_BYTES = 8


def host_and_pid() -> str:
    """``hostname:pid`` of this process: the default.

    >>> host_and_pid().count(":")
    1
    """
    return default_node_id()


def random() -> Callable[[], str]:
    """A function that always says the same random 16 hexadecimal digits, drawn now: one identity for each elector that gets its own.

    >>> node_id = random()
    >>> len(node_id()), node_id() == node_id(), node_id() == random()()
    (16, True, False)
    """
    drawn = entropy(_RANDOM_BYTES).hex()
    return lambda: drawn


def composed(*parts: str | Callable[[], str], separator: str = "/") -> Callable[[], str]:
    """A function that joins its parts, each a text or a function that says one.

    Raises:
        UsageError: no parts, or one that is neither.

    >>> composed("eu", "billing", lambda: "worker-7")()
    'eu/billing/worker-7'
    """
    if not parts:
        raise UsageError("composed() has no parts", "give texts or functions, such as identity.host_and_pid")
    for part in parts:
        if not isinstance(part, str) and not callable(part):
            raise UsageError(
                f"a part of composed() is {type(part).__name__}", "give texts, or functions that return one"
            )
    return lambda: separator.join(part if isinstance(part, str) else part() for part in parts)
