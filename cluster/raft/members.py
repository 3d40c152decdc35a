"""The members by the log: who counts, from the moment at which an entry says so.

Knows: what follows from appending, undoing and applying one, which peers the net is to know.
Must not know: who asks for a change, elections, sockets.

Every change is an entry with the whole list of members, one member more or less than the list before. It holds for a node from the moment
at which the entry is in that node's log, committed or not, and no longer if the entry is cut off. Any majority of the old members and any
majority of the new ones have a node in common, so it does not matter which of the two lists a node goes by.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from cluster.raft.core import Core, Parts
from cluster.raft.listing import Members, names_members, read_members
from cluster.raft.peer import Peer

logger = logging.getLogger(__name__)

JOINING: Final = "joining"
LEAVING: Final = "leaving"
GUEST: Final = "guest"


class Configuration(Core):
    """Which members count, and which peers there are.

    ``_lists``: the list that was applied last (or that this node began with), and after it those that are in the log and not applied yet.
    The last one counts. ``_beside``: peers that are no members, and why they are connected: they join, they leave, or they say that they
    are members and this node has not heard of it yet.
    """

    def __init__(self, parts: Parts) -> None:
        self._lists: list[Members] = []
        self._beside: dict[str, str] = {}
        self._snapshot_says: Members | None = None
        self._members: tuple[str, ...] = ()
        self._majority = 1
        self._counted: tuple[Peer, ...] = ()
        self._tell_members: Callable[[Sequence[str]], None] = lambda names: None
        super().__init__(parts)

    def _begin_members(self) -> None:
        self._lists = self._lists_from_disk()
        told = self._config.members
        if self._is_member() and self._lists[-1].names != told:
            logger.warning(
                "raft.members_kept node=%s kept=%s told=%s the members are changed by 'members add' and 'members remove' only",
                self._config.node_id, ",".join(self._lists[-1].names), ",".join(told),
            )  # fmt: skip
        self._use_members()

    def on_members(self, tell: Callable[[Sequence[str]], None]) -> None:
        """Have ``tell`` called with the members, now and whenever they change, if the log has ever said who they are."""
        self._tell_members = tell
        self._tell()

    def _tell(self) -> None:
        if self._lists[-1].index and self._is_member():
            self._tell_members(self._members)

    def _is_listed(self) -> bool:
        """Whether this node is among the members that count."""
        return self._config.node_id in self._members

    def _base(self) -> Members:
        """What holds before the first entry of the log: the snapshot's word, or what was formed or joined, or what this node was told."""
        if self._snapshot_says is not None:
            return self._snapshot_says
        known = tuple(sorted(self._meta.formed)) if self._meta.joined else ()
        return Members(0, known or self._config.members)

    def _lists_in_log(self, after: int) -> list[Members]:
        return [
            read_members(index, command)
            for command, index, _ in self._log[:]
            if index > after and names_members(command)
        ]

    # What happens to the log.

    def _took_up(self, index: int, command: bytes) -> None:
        """The entry is in the log: it counts."""
        new = read_members(index, command)
        old, self._lists = self._lists[-1], [*self._lists, new]
        if new.names != old.names:
            logger.info(
                "raft.members node=%s index=%d members=%s before=%s",
                self._config.node_id, index, ",".join(new.names), ",".join(old.names),
            )  # fmt: skip
            self._use_members()

    def _undo_members(self, index: int) -> None:
        """The entry at ``index`` and all after it were cut off."""
        if self._lists[-1].index >= index:
            self._lists = [self._lists[0], *(each for each in self._lists[1:] if each.index < index)]
            logger.info("raft.members_undone node=%s members=%s", self._config.node_id, ",".join(self._lists[-1].names))
            self._use_members()

    def _members_applied(self, index: int) -> None:
        """The entry is committed, and its turn to be applied has come."""
        before = self._lists[0]
        while len(self._lists) > 1 and self._lists[1].index <= index:
            del self._lists[0]
        me = self._config.node_id
        if me in self._lists[0].names and me not in before.names and self._lists[0].index > self._meta.member_since:
            # After a restart it would not know, before a leader says so, that this was committed.
            self._meta.save(member_since=self._lists[0].index)
        self._use_members()
        self._mind_removal(before)

    def _members_replaced(self) -> None:
        """A snapshot has taken the place of what was applied."""
        before, base = self._lists[0], self._base()
        self._lists = [base, *self._lists_in_log(base.index)]
        self._use_members()
        self._mind_removal(before)

    def _mind_removal(self, before: Members) -> None:
        me = self._config.node_id
        if self._lists[0].index <= self._meta.member_since:
            return  # After a restart the log is applied from its begin: this is how an earlier incarnation left.
        if self._is_member() and me in before.names and not any(me in each.names for each in self._lists):
            self._removed(f"its members are {', '.join(self._lists[-1].names)}")

    def _removed(self, more: str) -> None:
        self._stop(
            f"node {self._config.node_id} was removed from its raft group ({more}); "
            "to add it again, start it with an empty data directory"
        )

    # The peers.

    def _use_members(self) -> None:
        """Make what follows from the lists and ``_beside``: who counts, who is sent the log, whom the net knows."""
        me, before, newest = self._config.node_id, self._members, self._lists[-1].names
        for name in newest:
            self._beside.pop(name, None)
        wanted = dict.fromkeys(name for each in self._lists for name in each.names)
        wanted.update(dict.fromkeys(self._beside))
        if me not in newest or not self._is_member():
            # Whom it was told of is all that a newcomer knows.
            wanted.update(dict.fromkeys(self._config.peers))
        wanted.pop(me, None)
        for name in [name for name in self._peers if name not in wanted]:
            self._unlink(self._peers.pop(name))
        for name in wanted:
            if name not in self._peers:
                self._peers[name] = self._new_peer(name)
        self._members, self._majority = newest, len(newest) // 2 + 1
        self._counted = tuple(self._peers[name] for name in newest if name != me)
        self._others = self._counted + tuple(
            self._peers[name] for name, why in self._beside.items() if why != GUEST
        )
        self._name_voters([peer.node for peer in self._counted])
        if newest != before:
            self._tell()
        # Whoever may stand only now has no timer for it.
        self._arm()

    def _new_peer(self, name: str) -> Peer:
        peer = Peer(name)
        peer.begin(self._log[-1][1] if len(self._log) else 1)
        self._net.add_peer(name)
        return peer

    def _unlink(self, peer: Peer) -> None:
        if peer.connected:
            self._parted(peer)
        # Not at once: this may be the net's own call.
        self._env.call_soon(self._guard, self._forget_peer, peer.id)

    def _forget_peer(self, name: str) -> None:
        if name not in self._peers:
            self._net.drop_peer(name)
            return
        # It is wanted again: begin anew with it.
        self._net.drop_peer(name)
        self._net.add_peer(name)

    def _set_beside(self, name: str, why: str | None) -> None:
        """Connect with a node that is no member, or (None) not any more."""
        if why is None:
            self._beside.pop(name, None)
        elif name not in self._members:
            self._beside[name] = why
        self._use_members()

    # Decisions and duties of pieces.

    @abstractmethod
    def _lists_from_disk(self) -> list[Members]:
        """Which lists hold at the start. (KeepsMembers)"""

    @abstractmethod
    def _parted(self, peer: Peer) -> None:
        """The connection to a peer is gone. (membership)"""


class KeepsMembers(Configuration):
    """After a restart the newest list in the log counts, whether it is known to be committed or not; what the node is told does not.

    Hazard s19: the released library begins with the list that it is told, and changes it only as entries are committed anew. A node that
    restarts then takes a majority of the old members for one, while the new ones have theirs: two leaders commit different things.
    """

    def _lists_from_disk(self) -> list[Members]:
        base = self._base()
        return [base, *self._lists_in_log(base.index)]

