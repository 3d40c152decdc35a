"""Decides whether a history is one of a lease service.

Knows: exclusion per name and slot by real time and by token, I2, I4, I5, I8, and what a consistent read may see. Must not know: how the
service works, its time, its log.

Prior art: Jepsen's and Porcupine's checkers. Theirs search for an order; here tokens give the order of a slot's grants, so one pass from
the earliest possible times decides. "Unknown" may have happened at any time after its call, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from tests.history.calls import Call, Hold, read_calls, read_holds
from tests.history.counter import lost_increments
from tests.history.record import Record
from tests.history.records import check_records

CLOCK_SLACK_S = 0.02
"""A holder's clock may change its rate within the declared bound between two looks; less than this, a second, is not a shortening."""


def check(events: Sequence[Record]) -> list[str]:
    """What is wrong, in words; empty: a history of a lease service."""
    calls = read_calls(events)
    holds, wrong = read_holds(calls, events)
    releases = [call for call in calls.values() if call.op == "release" and call.result == "ok"]
    for call in releases:
        hold = holds.get(call.about["token"])
        if hold is not None and not call.about.get("min_lease"):
            hold.over_at = min(hold.over_at, call.ended)
    wrong += tokens_rise(holds.values())
    wrong += handles_keep(holds.values())
    wrong += lost_increments(events)
    wrong += check_records(read_calls(until_a_restore(events)).values())
    reads = [call for call in calls.values() if call.op == "read" and call.result == "ok"]
    restores = [event["at"] for event in events if event["kind"] == "restored"]
    for name in sorted({hold.name for hold in holds.values()} | {call.names[0] for call in reads}):
        mine = sorted((hold for hold in holds.values() if hold.name == name), key=lambda hold: hold.token)
        wrong += exclusive(mine)
        guesses = _guesses(calls.values(), name)
        wrong += linear(name, mine, [call for call in reads if call.names[0] == name], guesses, restores)
        wrong += refusals(name, mine, calls.values())
        wrong += too_late(mine, calls.values())
    return wrong


def until_a_restore(events: Sequence[Record]) -> Sequence[Record]:
    """A restore takes records back to those of the backup: what is seen of them afterwards is another history. Leases are one, whatever."""
    at = next((position for position, event in enumerate(events) if event["kind"] == "restored"), len(events))
    return events[:at]


def tokens_rise(holds: Iterable[Hold]) -> list[str]:
    """I2: who was told before another asked has the smaller token, whatever the names."""
    wrong = []
    newest = 0
    order = [(hold.asked, 1, hold.token) for hold in holds] + [(hold.told, 0, hold.token) for hold in holds]
    for at, asks, token in sorted(order):
        if asks and token <= newest:
            wrong.append(f"at {at:.4f} token {token} was asked for, when {newest} had been told already (I2)")
        elif not asks:
            newest = max(newest, token)
    return wrong


def handles_keep(holds: Iterable[Hold]) -> list[str]:
    """I4: what a holder counts on is never taken back, and what is lost stays lost."""
    wrong = []
    for hold in holds:
        until, lost = -inf, False
        for at, held, left in hold.looks:
            if held and lost:
                wrong.append(f"token {hold.token} was lost, and held again at {at:.4f}")
            if held and at + left < until - CLOCK_SLACK_S * max(1.0, left):
                wrong.append(f"token {hold.token} was shortened by {until - at - left:.4f} s at {at:.4f} (I4)")
            until = max(until, at + left) if held else until
            lost = lost or not held
    return wrong


def exclusive(holds: Sequence[Hold]) -> list[str]:
    """Of one name, by token: in a slot the earlier holder has stopped before the later one is told (I1, I8); slots within every limit."""
    wrong = []
    for position, later in enumerate(holds):
        if later.slot >= later.max_leaders:
            wrong.append(
                f"slot {later.slot} of {later.name!r} was granted to one who asked for {later.max_leaders} at most (I1)"
            )
        for earlier in holds[:position]:
            if earlier.slot == later.slot and earlier.held_at > later.told:
                wrong.append(
                    f"slot {later.slot} of {later.name!r}: token {earlier.token} was held at {earlier.held_at:.4f}, when {later.process} "
                    f"had been told of token {later.token} at {later.told:.4f} (I8)"
                )
        beside = [earlier for earlier in holds[:position] if earlier.held_at > later.told]
        limit = min(hold.max_leaders for hold in (later, *beside))
        if len(beside) >= limit:
            wrong.append(
                f"{later.name!r}: tokens {[hold.token for hold in (*beside, later)]} were held at once, where one asked for {limit} (I1)"
            )
    return wrong


def too_late(holds: Sequence[Hold], calls: Iterable[Call]) -> list[str]:
    """I4: a release or an extension that was asked for when another had been told of the slot changes nothing."""
    known = {hold.token: hold for hold in holds}
    wrong = []
    for call in calls:
        hold = known.get(call.about.get("token", 0)) if call.op in ("release", "extend") and call.result == "ok" else None
        if hold is None:
            continue
        for later in holds:
            if later.slot == hold.slot and later.token > hold.token and later.told < call.began:
                wrong.append(
                    f"slot {hold.slot} of {hold.name!r}: {call.op} of token {hold.token} at {call.began:.4f} was confirmed, when "
                    f"{later.process} had been told of token {later.token} at {later.told:.4f} (I4)"
                )
                break
    return wrong


def _guesses(calls: Iterable[Call], name: str) -> float:
    """From when on the name may be held by a grant that no client was told of: one whose reply came too late to be of use, so that its
    client asked again, and was refused or told of another token. Only what certainly failed cannot have left one."""
    return min(
        (call.began for call in calls if call.op == "acquire" and name in call.names and call.result != "fail"),
        default=inf,
    )


def linear(
    name: str, holds: Sequence[Hold], reads: Sequence[Call], unknown_from: float, restores: Sequence[float] = ()
) -> list[str]:
    """Consistent reads, slot by slot: there is a point within each at which the slot was as it says.

    A restore ends all leases: their holders find out at their next renewal, and until then others are shown nobody, and granted nothing.
    """
    wrong = []
    by_slot: dict[int, dict[int, Hold]] = {}
    for hold in holds:
        by_slot.setdefault(hold.slot, {})[hold.token] = hold
    seen: dict[tuple[int, int], list[Call]] = {}
    for read in reads:
        for slot, token in read.found["slots"]:
            seen.setdefault((slot, token), []).append(read)
            if token not in by_slot.setdefault(slot, {}):
                # Granted, and no client was told.
                by_slot[slot][token] = Hold(name, slot, token, "?", unknown_from, inf)
    for slot, known in by_slot.items():
        wrong += _one_slot(name, slot, [known[token] for token in sorted(known)], seen, reads, restores)
    return wrong


def _one_slot(
    name: str,
    slot: int,
    holds: Sequence[Hold],
    seen: dict[tuple[int, int], list[Call]],
    reads: Sequence[Call],
    restores: Sequence[float],
) -> list[str]:
    wrong = []
    now = -inf
    for hold in holds:
        mine = seen.get((slot, hold.token), [])
        granted_by = min([hold.told, *(read.ended for read in mine)])
        granted = max(now, hold.asked)
        if granted > granted_by:
            wrong.append(
                f"slot {slot} of {name!r}: token {hold.token} was seen at {granted_by:.4f}, before its begin at {granted:.4f}"
            )
        over = max([granted, hold.held_at, *(read.began for read in mine)])
        if over > hold.over_at:
            wrong.append(
                f"slot {slot} of {name!r}: token {hold.token} was seen at {over:.4f}, after its end at {hold.over_at:.4f}"
            )
        for read in reads:
            if (
                read.began > granted_by
                and read.ended < over
                and not any(hold.asked <= at <= read.ended for at in restores)
                and [slot, hold.token] not in [list(pair) for pair in read.found["slots"]]
            ):
                wrong.append(
                    f"slot {slot} of {name!r}: the read from {read.began:.4f} to {read.ended:.4f} saw {read.found['slots']}, "
                    f"while token {hold.token} was there from {granted_by:.4f} to {over:.4f}"
                )
        now = over
    return wrong


def refusals(name: str, holds: Sequence[Hold], calls: Iterable[Call]) -> list[str]:
    """Who is refused was so with a reason: somebody held the name, or stood in line, or may have."""
    asking = [call for call in calls if call.op == "acquire" and name in call.names]
    endless = [hold.asked for hold in holds if hold.over_at == inf]
    first_endless = min(endless, default=inf)
    wrong = []
    for call in asking:
        if call.result != "no" or len(call.names) > 1 or call.ended >= first_endless:
            continue
        occupied = any(hold.asked <= call.ended and hold.over_at >= call.began for hold in holds)
        others = any(
            other is not call
            and other.began <= call.ended
            and (other.ended >= call.began or other.result in ("unknown", "fail"))
            for other in asking
        )
        if not occupied and not others:
            when = f"between {call.began:.4f} and {call.ended:.4f}"
            wrong.append(f"{call.process} was refused {name!r} {when}, when nobody held or wanted it")
    return wrong
