"""Changing the members: one at a time, by the raft leader, through the log.

Knows: what must be true before a change may be appended, when it is done, what is told to whoever asked. Must not know: who asked, how the
list takes effect (``members``).

A node that is to be added is first *joining*: it is sent the log, counts for nothing, and has to pass the same mark as a node that lost
its memory (``membership``). Only then the list with it is appended. A node that is removed is *leaving*: it is sent the log until it has
heard of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cluster.limits import MEMBERS_MAX
from cluster.ports import ChangeOutcome
from cluster.raft.core import Parts
from cluster.raft.handover import Handover
from cluster.raft.listing import members_entry
from cluster.raft.members import JOINING, LEAVING
from cluster.raft.peer import Peer

logger = logging.getLogger(__name__)

Settled = Callable[[ChangeOutcome], None]

CONNECT_S: Final = 10.0
"""A node that is to be added must be connected within this, also when its connection breaks."""
CATCH_UP_S: Final = 600.0
CAUGHT_UP_ENTRIES: Final = 64
LEAVING_S: Final = 10.0
"""So long a node that was removed is told of it."""

DONE: Final = ChangeOutcome("done")
UNSURE: Final = ChangeOutcome("unsure")


def refused(text: str, hint: str, *, again: bool = False) -> ChangeOutcome:
    return ChangeOutcome("refused", text, hint, again)


@dataclass(slots=True)
class Change:
    """A change under way. ``index``: its entry, or 0 while it waits for its time."""

    add: bool
    node_id: str
    request: bytes
    settled: Settled
    index: int = 0


class Changing(Handover):
    """See the module's docstring. Whoever asked is answered once: done, refused, or unsure, when this node ceased to lead."""

    def __init__(self, parts: Parts) -> None:
        self._change: Change | None = None
        self._handing_over: Settled | None = None
        super().__init__(parts)

    # What is asked.

    def change_members(self, add: bool, node_id: str, request: bytes, settled: Settled) -> None:
        """See ``ports.Replicator``."""
        if not self.is_leader:
            settled(UNSURE)
            return
        under_way = self._change
        if under_way is not None and under_way.request == request:
            # Asked again: the first asker's connection is gone.
            under_way.settled(UNSURE)
            under_way.settled = settled
            return
        if under_way is not None:
            settled(self._busy(under_way))
            return
        again = next((each for each in self._lists if each.change == request), None)
        if again is not None and again.index <= self._SyncObj__raftCommitIndex:
            settled(DONE)
            return
        change = Change(add, node_id, request, settled, 0 if again is None else again.index)
        objection = None if change.index else self._objection_to(change)
        if objection is not None:
            settled(objection)
            return
        self._begin_change(change)

    def _begin_change(self, change: Change) -> None:
        self._change = change
        logger.info(
            "raft.change node=%s %s=%s", self._config.node_id, "add" if change.add else "remove", change.node_id
        )
        self._env.call_later(CONNECT_S, self._guard, self._overdue, change, True)
        if change.add and not change.index:
            known = self._peers.get(change.node_id)
            self._set_beside(change.node_id, JOINING)
            if known is not None and known.connected:
                # It leaves, or is a guest. What it said of itself may be from before it was a member: let it connect again.
                self._unlink(known)
            self._env.call_later(CATCH_UP_S, self._guard, self._overdue, change, False)
        elif change.node_id == self._config.node_id and not self.transfer(None):
            text = f"{change.node_id} is the raft leader, and no other member can take over now"
            self._end_change(refused(text, "ask again when another one has caught up", again=True))
            return
        self._go_on()

    def hand_over(self, to: str | None, settled: Settled) -> None:
        """``transfer``, with an answer: done when this node has ceased to lead."""
        if to == self._config.node_id and self.is_leader:
            settled(DONE)
        elif to is not None and to not in self._members:
            settled(refused(f"{to} is not a member", f"the members are {', '.join(self._members)}"))
        elif self._majority == 1 and self.is_leader:
            settled(refused("there is no other member to take over", "add one first"))
        elif not self.is_leader:
            settled(UNSURE)
        elif self.transfer(to):
            self._handing_over = settled
        else:
            hint = "it must be connected and have caught up, and no other transfer may be under way; ask again soon"
            settled(refused(f"{to} cannot take over now" if to else "no other member can take over now", hint, again=True))

    # Objections.

    def _busy(self, change: Change) -> ChangeOutcome:
        text = f"another change is under way: {change.node_id} is being {'added' if change.add else 'removed'}"
        return refused(text, "one member at a time: ask again when it is done", again=True)

    def _objection_to(self, change: Change) -> ChangeOutcome | None:
        name, members = change.node_id, self._members
        if change.add:
            if name in members:
                return refused(f"{name} is a member already", f"the members are {', '.join(members)}")
            if self._beside.get(name) == LEAVING:
                hint = "start it with an empty data directory, and ask again"
                return refused(f"{name} is being told that it was removed", hint, again=True)
            if len(members) >= MEMBERS_MAX:
                return refused(f"there are {len(members)} members, the limit MEMBERS_MAX", "remove one first")
            return None
        if name not in members:
            return refused(f"{name} is not a member", f"the members are {', '.join(members)}")
        if len(members) == 1:
            return refused(f"{name} is the last member", "a raft group cannot be empty: stop the node instead")
        if name != self._config.node_id:
            return self._lacks_majority([each for each in members if each != name])
        return None

    def _lacks_majority(self, names: list[str]) -> ChangeOutcome | None:
        """With the new list, those that answer now must be a majority: else the change would be the last thing that ever happened."""
        since = self._clock() - self._config.election_max_s
        silent = [
            name
            for name in names
            if name != self._config.node_id and not (self._peers[name].voter and self._peers[name].answered >= since)
        ]
        if len(names) - len(silent) > len(names) // 2:
            return None
        return refused(
            f"of the members that there would be ({', '.join(names)}) too few answer: {', '.join(silent)} do not",
            "start them, or remove the dead ones first", again=True,
        )  # fmt: skip

    # On the way.

    def _go_on(self) -> None:
        """Append the change if its time has come."""
        change = self._change
        if change is None or change.index or not self.is_leader or self._change_blocked():
            return
        name, me = change.node_id, self._config.node_id
        if change.add:
            peer = self._peers[name]
            if peer.connected and peer.hello is not None and self._was_removed(peer.hello, doubted=True):
                text = f"{name} has the data of the member that was removed"
                self._end_change(refused(text, "start it with an empty data directory"))
                return
            lag = self._log[-1][1] - peer.match
            if not (peer.connected and peer.voter) or lag > CAUGHT_UP_ENTRIES:
                return
            names = [*self._members, name]
        elif name == me:
            return
        else:
            names = [each for each in self._members if each != name]
        if self._lacks_majority(names) is not None:
            return
        if not change.add:
            self._beside[name] = LEAVING
        change.index = self._log[-1][1] + 1
        self._append_entry(members_entry(names, change.request))

    def _change_blocked(self) -> bool:
        """Whether no change may be appended now, whatever it is."""
        return self._proposals_blocked()

    def _overdue(self, change: Change, connecting: bool) -> None:
        if self._change is not change or change.index:
            return
        name = change.node_id
        peer = self._peers.get(name)
        if not change.add or peer is None:
            if name != self._config.node_id:
                text = f"{name} could not be removed within {CONNECT_S:g} s"
                self._end_change(refused(text, "too few of the other members answer", again=True))
            return
        if connecting and peer.connected:
            return
        if not peer.connected:
            text = f"{name} was not reached within {CONNECT_S:g} s"
            hint = f"start it with an empty data directory and --peers {','.join(self._members)}, then ask again"
        else:
            text, hint = f"{name} has not caught up within {CATCH_UP_S:g} s", "see the logs of both nodes"
        self._end_change(refused(text, hint, again=True))

    def _end_change(self, outcome: ChangeOutcome) -> None:
        change, self._change = self._change, None
        if change is None:
            return
        logger.info(
            "raft.change_ended node=%s member=%s outcome=%s text=%s",
            self._config.node_id, change.node_id, outcome.kind, outcome.text or "-",
        )  # fmt: skip
        if self._beside.get(change.node_id) == JOINING:
            self._set_beside(change.node_id, None)
        change.settled(outcome)

    # What happens meanwhile.

    def _after_ack(self, peer: Peer) -> None:
        super()._after_ack(peer)
        if self._change is not None and not self._change.index:
            self._go_on()

    def _members_applied(self, index: int) -> None:
        super()._members_applied(index)
        change = self._change
        if change is not None and 0 < change.index <= index:
            if not change.add:
                self._env.call_later(LEAVING_S, self._guard, self._see_out, change.node_id, True)
                self._see_out(change.node_id, False)
            self._end_change(DONE)
        self._go_on()

    def _see_out(self, name: str, in_any_case: bool) -> None:
        peer = self._peers.get(name)
        if self._beside.get(name) == LEAVING and (in_any_case or peer is None or not peer.connected):
            self._set_beside(name, None)

    def _parted(self, peer: Peer) -> None:
        super()._parted(peer)
        if self._beside.get(peer.id) == LEAVING and self._lists[0] is self._lists[-1]:
            self._env.call_soon(self._guard, self._see_out, peer.id, False)
        change = self._change
        if change is not None and change.node_id == peer.id and self._beside.get(peer.id) == JOINING:
            # It must come back as soon as it had to come: while this change waits no other may begin.
            self._env.call_later(CONNECT_S, self._guard, self._overdue, change, True)

    def _settle(self) -> None:
        if not self.is_leader:
            self._no_longer_leading()
        super()._settle()

    def _no_longer_leading(self) -> None:
        handing_over, self._handing_over = self._handing_over, None
        if handing_over is not None:
            handing_over(DONE)
        self._end_change(UNSURE)
        for name in [name for name, why in self._beside.items() if why in (JOINING, LEAVING)]:
            self._set_beside(name, None)

    def _give_up_handover(self, term: int) -> None:
        super()._give_up_handover(term)
        if not self.is_leader or self._target is not None:
            return
        failed = refused("the other member did not take over in time", "ask again soon", again=True)
        handing_over, self._handing_over = self._handing_over, None
        if handing_over is not None:
            handing_over(failed)
        if self._change is not None and self._change.node_id == self._config.node_id:
            self._end_change(failed)


class OneAtATime(Changing):
    """No change while the one before it is not committed.

    Hazard s08: the released library means to, and never sets the variable. Two changes under way are two steps at once: a majority of the
    new list and one of the old need not meet.
    """

    def _change_blocked(self) -> bool:
        return self._lists[-1].index > self._SyncObj__raftCommitIndex or super()._change_blocked()


class OwnTermFirst(Changing):
    """No change before an entry of the leader's own term is committed.

    Else two leaders could each begin a change from the same list, one of them uncommitted on a minority: majorities of two lists that
    differ by two members need not meet either. (Found after Raft's single-server changes were published; the remedy is its author's.)
    """

    def _change_blocked(self) -> bool:
        commit = self._SyncObj__raftCommitIndex
        return self._log[commit - self._first][2] != self._SyncObj__raftCurrentTerm or super()._change_blocked()
