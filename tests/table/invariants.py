"""A witness of I1 to I7 and I10: sees what goes into a table and what comes out, and says which invariant was broken.

Knows: the invariants, the formats. Must not know: the model, how answers are found. Made to catch a model or a table that is wrong in
itself, whatever the other one says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster.opcodes import Op
from tests.table.invariants_candidates import CandidateWitness, check_rosters
from tests.table.invariants_records import RecordWitness
from tests.table.packing import HEADER, Unreadable, decode, decode_all

GRANTED, RELEASED, EXPIRED, MARKED, FREED, VACATED, ABANDONED, EXTENDED = range(1, 9)
ACQUIRE, ACQUIRE_ALL, SESSION_OPEN, ELECT = 1, 2, 12, 19


@dataclass(frozen=True)
class Row:
    """A lease of a snapshot."""

    acq_id: bytes
    name: bytes
    slot: int
    token: int
    granted: int
    deadline: int
    lease_ms: int
    min_ms: int
    max_leaders: int
    session: int
    flags: int
    node_id: bytes
    metadata: bytes

    @property
    def dead(self) -> bool:
        return bool(self.flags & 2)


Read = Callable[[bytes], Any]


def read_whole(snapshot: bytes) -> Any:
    """With this project's tests' own reader, which also refuses what is not in its shortest form."""
    state, end = decode(snapshot)
    assert end == len(snapshot), "I6: bytes after the snapshot"
    return state


class State:
    """A snapshot, read."""

    def __init__(self, snapshot: bytes, read: Read = read_whole) -> None:
        state = read(snapshot)
        (
            _,
            self.level,
            self.epoch,
            self.now,
            self.next_token,
            self.cluster_id,
            self.grants_from,
            self.longest_ms,
            sessions,
            leases,
            self.forgotten,
            records,
            writes,
            rosters,
            self.next_event,
        ) = state
        self.records = {row[0]: (row[1], row[2], row[3], row[4]) for row in records}
        self.writes = [(row[0], row[1], row[2]) for row in writes]
        versions, remembered = [row[2] for row in records], [row[1] for row in writes]
        assert versions == sorted(set(versions)), "I6: records out of order"
        assert remembered == sorted(set(remembered)), "I6: writes out of order"
        assert len(self.records) == len(records), "I10: a key twice"
        self.sessions = {row[0]: row[1] for row in sessions}
        self.leases = {row[3]: Row(*row) for row in leases}
        assert list(self.sessions) == sorted(self.sessions), "I6: sessions out of order"
        assert list(self.leases) == sorted(self.leases), "I6: leases out of order"
        assert len(self.leases) == len(leases), "I2: a token twice"
        self.rosters = rosters

    def ends(self, lease: Row) -> int:
        return max(lease.deadline, self.sessions[lease.session]) if lease.session else lease.deadline

    def occupants(self) -> list[Row]:
        return [lease for lease in self.leases.values() if self.ends(lease) > self.now]


def check_state(state: State) -> None:
    """What holds of every state by itself."""
    places: dict[tuple[bytes, int], int] = {}
    owners: set[tuple[bytes, bytes]] = set()
    by_name: dict[bytes, list[Row]] = {}
    for lease in state.leases.values():
        place = (lease.name, lease.slot)
        assert places.setdefault(place, lease.token) == lease.token, (
            f"I1: two leases in slot {lease.slot} of {lease.name!r}"
        )
        assert 0 < lease.token < state.next_token, "I2: a token that was not given out"
        assert lease.token not in state.sessions, "I2: a lease and a session with one number"
        assert not lease.session or state.sessions[lease.session] > state.now, "a lease on a session that is over"
    check_rosters(state)
    for name, version, token, _ in state.records.values():
        assert 0 < version < state.next_token, "I2: a version that was not given out"
        assert (token > 0) == (name != b""), "I10: bound without a token, or the other way round"
    for lease in state.occupants():
        by_name.setdefault(lease.name, []).append(lease)
        if not lease.dead:
            assert (lease.name, lease.acq_id) not in owners, "I5: one acquisition id holds a name twice"
            owners.add((lease.name, lease.acq_id))
    for name, occupants in by_name.items():
        limit = min(lease.max_leaders for lease in occupants)
        assert len(occupants) <= limit, (
            f"I1: {len(occupants)} occupants of {name!r}, where one asked for at most {limit}"
        )


def numbers_in(operation: int, answer: list[Any]) -> set[int]:
    """The tokens or the session of a good answer to an acquire or the opening of a session."""
    if operation in (ACQUIRE, SESSION_OPEN, ELECT):
        return {answer[1]}
    return {grant[0] for grant in answer[1]} if operation == ACQUIRE_ALL else set()


def asked_and_answered(batch: bytes, answers: list[Any]) -> list[tuple[list[Any], list[Any]]]:
    """Each operation that can be read, with its answer."""
    pairs: list[tuple[list[Any], list[Any]]] = []
    at = HEADER.size
    for answer in answers:
        try:
            operation, at = decode(batch, at)
        except Unreadable:
            break
        if isinstance(operation, list) and operation and answer != [6, 0]:
            pairs.append((operation, answer))
    return pairs


class Witness:
    """Feed it every batch with its outcome, in order; it raises AssertionError with the invariant's number."""

    def __init__(self, snapshot: bytes, sweep_max: int, read: Read = read_whole) -> None:
        self._read = read
        self.before = State(snapshot, read)
        self.sweep_max = sweep_max
        self.record_witness = RecordWitness()
        self.candidate_witness = CandidateWitness()
        self.newest = self.before.next_token - 1  # The largest number given out so far, as a token or a session.
        self.ended: set[int] = set()
        # By slot, the token that occupies it as far as events tell; released ones may still do so.
        self.slots = {(lease.name, lease.slot): token for token, lease in self.before.leases.items()}
        self.released = {token for token, lease in self.before.leases.items() if lease.dead}

    def saw(self, batch: bytes, replies: bytes, events: bytes, snapshot: bytes) -> None:
        after = State(snapshot, self._read)
        answers = decode_all(replies)
        happened = decode_all(events)
        check_state(after)
        self._check_time(after, happened, any(op[0] == Op.INIT for op, _ in asked_and_answered(batch, answers)))
        self._check_wait(after, happened)
        self._check_answers(batch, answers, happened)
        self._check_sweep(happened, after)
        for event in happened:
            self._follow(*event)
        self._check_events_tell_all(after)
        self._check_what_stayed(after, happened)
        self.record_witness.saw(self.before, after, asked_and_answered(batch, answers))
        self.candidate_witness.saw(self.before, after, asked_and_answered(batch, answers))
        if all(answer[0] != 0 for answer in answers):
            self._check_nothing_changed(after)
        self.before = after

    def _check_time(self, after: State, happened: list[Any], may_form: bool) -> None:
        assert after.now >= self.before.now, "I3: time went back"
        assert after.epoch >= self.before.epoch, "I3: the epoch went back"
        assert after.level >= self.before.level, "I3: the level went back"
        assert after.next_token >= self.before.next_token, "I2: the token counter went back"
        counted = after.next_event - self.before.next_event
        # A group that forms skips numbers.
        assert counted >= len(happened), "an event without a number"
        assert counted == len(happened) or may_form, "a number without an event"

    def _check_wait(self, after: State, happened: list[Any]) -> None:
        """A state that was restored grants nothing before the longest lease time in use until then has passed.

        One that comes up later in the same batch does not count.
        """
        assert after.grants_from >= self.before.grants_from, "I8: the wait was shortened"
        if self.before.cluster_id and not after.cluster_id:
            assert after.grants_from >= after.now + self.before.longest_ms, "I8: restored without a wait"
        elif after.grants_from > after.now and self.before.grants_from == after.grants_from:
            assert GRANTED not in {event[0] for event in happened}, "I8: granted before the wait is over"
        if after.grants_from and after.cluster_id and not self.before.cluster_id:
            assert after.grants_from >= after.now + self.before.longest_ms, "I8: a restored group begins without a wait"

    def _check_answers(self, batch: bytes, answers: list[Any], happened: list[Any]) -> None:
        expected = 0
        if len(batch) >= HEADER.size:
            level, zero, zeros, count, _, _ = HEADER.unpack_from(batch)
            expected = count if level == 1 and not zero and not zeros and count <= len(batch) - HEADER.size else 0
        assert len(answers) == expected, f"I7: {len(answers)} answers to {expected} operations"
        told: set[int] = set()
        for operation, answer in asked_and_answered(batch, answers):
            if answer[0] != 0:
                continue
            numbers = numbers_in(operation[0], answer)
            assert not self.ended & numbers, "I5: an ended number was given out again"
            told |= numbers
        assert told >= {event[3] for event in happened if event[0] == GRANTED}, "I4: granted, and nobody was told"

    def _check_sweep(self, happened: list[Any], after: State) -> None:
        """Before the first other event stand at most the cap's expiries of the sweep, and those that a grant needed."""
        swept = []
        for kind, _, _, token, _, _ in happened:
            if kind not in (EXPIRED, VACATED):
                break
            lease = self.before.leases[token]
            end = self.before.ends(lease)
            assert end <= after.now, "I7: expired before its time"
            swept.append((end, token))
        first = swept[: self.sweep_max]
        assert first == sorted(first), "I7: swept out of order"
        over = sorted((self.before.ends(lease), lease.token) for lease in self.before.leases.values())
        due = [entry for entry in over if entry[0] <= after.now][: len(first)]
        if after.epoch == self.before.epoch:
            assert first == due, "I7: the sweep left out what was first"

    def _follow(self, kind: int, name: bytes, slot: int, token: int, node_id: bytes, reason: int) -> None:
        """The history of slots, from events alone."""
        place = (name, slot)
        if kind == GRANTED:
            occupant = self.slots.get(place)
            assert occupant is None or occupant in self.released, (
                f"I7: {name!r} was granted before the end of {occupant} was reported"
            )
            assert token > self.newest, "I2: tokens do not rise"
            if occupant is not None:
                self.ended.add(occupant)
            self.newest = token
            self.slots[place] = token
            return
        assert self.slots.get(place) == token, f"I7: an event about {token}, which does not occupy its slot"
        assert token not in self.ended, "I7: an event about an ended lease"
        if kind == RELEASED:
            assert token not in self.released, "I5: released twice"
            self.released.add(token)
        elif kind not in (MARKED, EXTENDED):
            assert kind == FREED or (kind == VACATED) == (token in self.released), "I7: the wrong name for an end"
            self.ended.add(token)
            del self.slots[place]

    def _check_events_tell_all(self, after: State) -> None:
        for place, token in list(self.slots.items()):
            if token not in after.leases:
                assert token in self.released, f"I7: lease {token} vanished without an event"
                self.ended.add(token)
                del self.slots[place]
        assert set(self.slots.values()) == set(after.leases), "I7: a lease appeared without an event"
        assert not self.ended & set(after.leases), "I5: an ended lease came back"

    def _check_what_stayed(self, after: State, happened: list[Any]) -> None:
        marked = {event[3] for event in happened if event[0] in (MARKED, RELEASED)}
        for token, lease in after.leases.items():
            earlier = self.before.leases.get(token)
            if earlier is None:
                continue
            same = ("acq_id", "name", "slot", "granted", "lease_ms", "min_ms", "max_leaders", "node_id", "metadata")
            assert all(getattr(lease, field) == getattr(earlier, field) for field in same), (
                "I4: a lease changed what it is"
            )
            if self.before.ends(earlier) <= after.now:
                # The end may have moved from its session to itself; it is the same end.
                untouched = (self.before.ends(earlier), earlier.flags)
                assert (after.ends(lease), lease.flags) == untouched, "I7: a lease that was over was touched"
            if token not in marked:
                assert lease.flags == earlier.flags, "I4: flags changed without an event"
                assert after.ends(lease) >= self.before.ends(earlier), "I4: a lease was shortened"
                assert earlier.flags == 0 or after.ends(lease) == self.before.ends(earlier), (
                    "I4: a revoked or dead lease was extended"
                )

    def _check_nothing_changed(self, after: State) -> None:
        assert after.next_token == self.before.next_token, "I4: a refusal took a token"
        for token, lease in after.leases.items():
            earlier = self.before.leases.get(token)
            assert earlier is not None, "I4: a refusal granted"
            assert after.ends(lease) == self.before.ends(earlier), "I4: a refusal extended"
            assert lease.flags == earlier.flags, "I4: a refusal ended a lease"
        for token, earlier in self.before.leases.items():
            assert token in after.leases or self.before.ends(earlier) <= after.now, "I4: a refusal removed a live lease"
