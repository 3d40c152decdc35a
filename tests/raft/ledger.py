"""What must never happen, whatever the schedule: the checker that sits above all nodes.

Knows: what each node applied, who led which term, what was acknowledged. Must not know: how the adapter works.

- Election safety: one leader per term.
- State machine safety: no two nodes apply different commands at one index; states agree with the log they stand for.
- Leader completeness: a leader's log holds all that was committed in earlier terms. (An entry of term 3 may be committed in term 5; a
  leader of term 4, elected before and heard of late, need not have it.)
- Log matching: an entry's index and term say what it is and what is before it.
- Committed by a majority: where nobody comes or goes, or loses its disk, most nodes have what is committed in their logs at that moment.
- Acknowledged is kept: what the proposer's node applied in the term of the proposal is there for ever.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from cluster.codec import pack, unpack

OWN_ENTRY = -1


def bare(command: bytes) -> bytes:
    """Without the dots that make some commands long: they lengthen the log, and should not lengthen the snapshots."""
    return command.rstrip(b".")


class Ledger:
    """``violations``: each a word for the rule and what happened."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.violations: list[tuple[str, str]] = []
        self.leaders: dict[int, str] = {}
        self.applied: dict[int, tuple[int, bytes]] = {}
        self.committed_in: dict[int, int] = {}
        self.acked: dict[bytes, int] = {}
        self._pending: dict[str, dict[int, tuple[int, bytes]]] = {}
        self._entries: dict[tuple[int, int], tuple[bytes, int]] = {}
        self.elections = 0
        self.restores = 0
        self.counts_holders = False

    def fail(self, rule: str, what: str) -> None:
        self.violations.append((rule, f"at {self._world.now - 1000.0:.3f} s: {what}"))

    def proposed(self, name: str, index: int, term: int, command: bytes) -> None:
        self._pending.setdefault(name, {})[index] = (term, command)

    def forget(self, name: str) -> None:
        """The node died, and with it whoever waited there."""
        self._pending.pop(name, None)

    def was_skipped(self, name: str, indexes: range) -> None:
        """The node applied what is before and after these, so they were the engine's own entries there."""
        for index in indexes:
            _, command = self.applied.setdefault(index, (OWN_ENTRY, b""))
            if command:
                self.fail("StateMachineSafety", f"{name} applied nothing at {index}, where {command!r} was applied")

    def was_applied(self, name: str, index: int, term: int, command: bytes) -> None:
        # Committed in this term or before: who applies first is in the term of the leader that committed it, or in a later one.
        if index not in self.committed_in:
            self.committed_in[index] = self._world[name].raft.term
            if self.counts_holders:
                self._check_holders(index, term, command)
        known = self.applied.setdefault(index, (term, command))
        if known != (term, command):
            self.fail(
                "StateMachineSafety", f"{name} applied {command!r} of term {term} at {index}, where {known} was applied"
            )
        mine = self._pending.get(name, {}).pop(index, None)
        if mine is not None:
            if mine == (term, command):
                self.acked[bare(command)] = index
            elif mine[0] == term:
                self.fail("WrongAnswer", f"{name} proposed {mine} and was told {command!r} at {index}")

    def _check_holders(self, index: int, term: int, command: bytes) -> None:
        nodes = self._world.nodes.values()
        # A node that is down is believed to have it.
        lacking = [node.name for node in nodes if node.alive and not _has(node.storage.journal, index, term, command)]
        if len(lacking) * 2 >= len(nodes):
            self.fail("MinorityCommit", f"{command!r} is committed at {index}, and not in the logs of {lacking}")

    def leads(self, name: str, term: int, log: Any) -> None:
        self.elections += 1
        if self.leaders.setdefault(term, name) != name:
            self.fail("ElectionSafety", f"{name} and {self.leaders[term]} lead in term {term}")
        for other in self._world.nodes.values():
            if other.alive and other.raft.term < term and other.raft.has_fresh_majority():
                self.fail(
                    "LeaseViolated",
                    f"{other.name} trusts its reign of term {other.raft.term} as {name} is elected in term {term}",
                )
        first, last = log[0][1], log[-1][1]
        for index, (applied_term, command) in self.applied.items():
            if applied_term == OWN_ENTRY or index <= first or self.committed_in[index] >= term:
                continue
            if index > last or log[index - first][0] != command or log[index - first][2] != applied_term:
                self.fail(
                    "LeaderCompleteness", f"{name} leads in term {term} without {command!r}, committed at {index}"
                )
                return

    def check_log(self, name: str, log: Any) -> None:
        entries = log[:]
        for before, (command, index, term) in itertools.pairwise(entries):
            known = self._entries.setdefault((index, term), (command, before[2]))
            if known != (command, before[2]):
                self.fail(
                    "LogMatching", f"{name} has {command!r} at {index} of term {term}, where {known[0]!r} is known"
                )
                return

    def committed_through(self, log: Any) -> int:
        """The newest command of this log that is known to be committed; 0: none."""
        first, last = log[0][1], log[-1][1]
        for index in range(last, first, -1):
            if self.applied.get(index) == (log[index - first][2], log[index - first][0]):
                return index
        return 0

    def check_state(self, name: str, applied_index: int, commands: list[bytes]) -> None:
        expected = [
            bare(self.applied[index][1])
            for index in sorted(self.applied)
            if index <= applied_index and self.applied[index][1]
        ]
        if commands != expected:
            self.fail("StateDivergence", f"{name} at {applied_index} has {commands[-3:]}, should have {expected[-3:]}")

    def check_kept(self, name: str, commands: list[bytes]) -> None:
        """All that was acknowledged is in this state."""
        missing = sorted(set(self.acked) - set(commands))
        if missing:
            self.fail("AckedLost", f"{name} has committed past {missing}, which were acknowledged")


def _has(log: Any, index: int, term: int, command: bytes) -> bool:
    first, last = log[0][1], log[-1][1]
    return index <= last and (index <= first or (log[index - first][0], log[index - first][2]) == (command, term))


class ListMachine:
    """See ``ports.Machine``: its state is the list of commands. ``boom`` in a command makes it fail on every node, ``fails`` once, here."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self._ledger = ledger
        self._name = name
        self.commands: list[bytes] = []
        self.roles: list[tuple[bool, int, str | None]] = []
        self.tried: list[bytes] = []
        self.raft: Any = None
        self.fails = self.failed = False
        self._last = 0

    def apply(self, index: int, term: int, command: bytes) -> None:
        self.tried.append(command)
        if b"boom" in command:
            raise RuntimeError("boom")
        self.commands.append(bare(command))
        if self.fails:
            self.fails, self.failed = False, True
            raise RuntimeError("failed in the midst of a command")
        if self._last:
            self._ledger.was_skipped(self._name, range(self._last + 1, index))
        self._last = index
        self._ledger.was_applied(self._name, index, term, command)

    def freeze(self) -> Callable[[], bytes]:
        state = pack(self.commands)
        return lambda: state

    def restore(self, state: bytes) -> None:
        if self.fails:
            self.fails, self.failed = False, True
            raise ValueError("cannot be read now")
        commands = unpack(state)
        if type(commands) is not list or any(type(command) is not bytes for command in commands):
            raise ValueError("not a list of commands")
        self._ledger.restores += 1
        self.commands = commands
        self._last = 0

    def role_changed(self, leading: bool, term: int, leader: str | None) -> None:
        self.roles.append((leading, term, leader))
        if leading:
            self._ledger.leads(self._name, term, self.raft._adapter._log)
