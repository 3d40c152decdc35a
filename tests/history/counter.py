"""A counter that several processes increment, each by reading it and writing one more: was an increment lost?

Knows: the writes that the counter took, in its own order. Must not know: what keeps two from writing at once.

An event of the counter's own: ``write``, with ``name`` of the counter, ``process``, ``token``, ``value``, and ``took``: false when it was
refused. What a counter did not take changes nothing. The first value that it takes is 1.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.history.record import Record


def lost_increments(events: Iterable[Record]) -> list[str]:
    """Every write that does not stand on the one before it, in words."""
    wrong = []
    last: dict[str, Record] = {}
    for event in events:
        if event["kind"] != "write" or not event["took"]:
            continue
        before = last.get(event["name"], {"value": 0, "process": "nobody", "token": 0})
        if event["value"] != before["value"] + 1:
            wrong.append(
                f"counter {event['name']!r}: {event['process']} wrote {event['value']} under token {event['token']} at {event['at']:.4f} "
                f"over {before['value']} of {before['process']} under token {before['token']}: an increment is lost"
            )
        last[event["name"]] = event
    return wrong
