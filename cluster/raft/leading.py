"""The leader's side of the log: propose, send, count answers.

Knows: where each follower stands, how much may be under way to it. Must not know: elections, snapshots' contents.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from math import inf
from typing import Any

from cluster.raft import messages as m
from cluster.raft.commit import Commit
from cluster.raft.config import APPEND_MAX_BYTES, APPEND_MAX_ENTRIES, APPENDS_IN_FLIGHT_MAX, ENTRY_MAX_BYTES
from cluster.raft.core import Parts
from cluster.raft.engine import LEADER, SyncObj
from cluster.raft.listing import RESERVED, names_members
from cluster.raft.peer import Peer

logger = logging.getLogger(__name__)

COMMAND_MIN_BYTES = 2


class Leading(Commit):
    """Entries go out when they are proposed, to every follower that has all before them, in one encoding. The rest is sent as answers come.

    ``Peer.next`` is optimistic: what is sent counts as arrived until a refusal or a new connection says otherwise.
    """

    def __init__(self, parts: Parts) -> None:
        self._next_beat = inf
        self._stamp = -inf
        self._settling = False
        super().__init__(parts)

    # Proposing.

    def propose(self, command: bytes) -> int | None:
        """See ``ports.Replicator``. Raises ValueError for a command that is too short, too long or begins with the reserved byte."""
        if self._SyncObj__raftState != LEADER or self._stopped or self._proposals_blocked():
            return None
        if not COMMAND_MIN_BYTES <= len(command) <= ENTRY_MAX_BYTES or command[0] == RESERVED:
            raise ValueError(f"a command of {len(command)} bytes is not one that the log carries")
        return self._append_entry(command)

    def _append_entry(self, command: bytes) -> int:
        log = self._log
        _, prev, prev_term = log[-1]
        term = self._SyncObj__raftCurrentTerm
        index: int = prev + 1
        now = self._sending_time()
        frame = m.append_frame(term, now, prev, prev_term, self._SyncObj__raftCommitIndex, ((term, command),))
        send = self._net.send_encoded
        for peer in self._others:
            if peer.next == index and peer.open and len(peer.in_flight) < APPENDS_IN_FLIGHT_MAX:
                peer.next = index + 1
                peer.in_flight.append(index)
                peer.sent_at = now
                send(peer.id, frame)
        # It counts here only when it is durable here, so the others may have it first.
        try:
            log.add(command, index, term)
        except ValueError as error:
            self._stop(f"the journal of this node does not take entry {index}: {error}")
            return index
        if names_members(command):
            self._took_up(index, command)
        self._settle_own(index)
        return index

    def _settle_own(self, index: int) -> None:
        """Make the own log durable while the entry travels, and count it then."""
        log = self._log
        try:
            log.flush()
        except OSError as error:
            # The entry is on its way: whether it happens is unknown, and this node will not learn it.
            self._stop(f"the journal of this node cannot be written: {error}")
            return
        if log.durable_index < index:
            # One waits at a time, so that a disk that hangs does not collect them.
            if not self._settling:
                self._settling = True
                log.sync(self._count_own)
        elif self._majority == 1:
            # Never from within the proposal: its index is not known to the caller yet.
            self._env.call_soon(self._count_own)

    def _count_own(self) -> None:
        self._settling = False
        self._guard(self._advance_commit)
        last = self._log[-1][1]
        if self._log.durable_index < last and self.is_leader:
            self._settle_own(last)

    def _sending_time(self) -> float:
        """Now, and never before the last message: receivers take what was sent earlier for something left over."""
        now = self._clock()
        if now < self._stamp:
            return self._stamp
        self._stamp = now
        return now

    # A reign.

    def _begin_reign(self) -> None:
        # Later than anything that was sent before, also on a clock that stands still: answers to that are told apart by it.
        self._stamp = self._reign_began = max(self._clock(), self._stamp + 1e-6)
        self._lease_void = False
        last = self._log[-1][1]
        for peer in self._others:
            peer.begin(last)
        logger.info("raft.lead node=%s term=%d last_index=%d", self._config.node_id, self.term, last)
        self._stock(SyncObj._SyncObj__onBecomeLeader)
        self._settle_own(last + 1)

    def _SyncObj__sendAppendEntries(self) -> None:
        """The engine has appended its first entry of the reign, and wants it sent."""
        for peer in self._others:
            self._replicate(peer)
        self._next_beat = self._clock() + self._config.heartbeat_s

    def _beat(self, now: float, late: bool) -> None:
        """Send something to each follower that was sent nothing for one heartbeat; commit index included."""
        heartbeat_s = self._config.heartbeat_s
        earliest = now
        for peer in self._others:
            if peer.connected:
                if now - peer.sent_at >= heartbeat_s * 0.9:
                    self._remind(peer)
                if peer.sent_at < earliest:
                    earliest = peer.sent_at
        # Never at once again, also when there was nothing that could be sent to someone.
        due = earliest + heartbeat_s
        self._next_beat = due if due > now else now + heartbeat_s

    def _remind(self, peer: Peer) -> None:
        """Send a sign of life that also finds out what got lost."""
        if peer.transfer is not None:
            self._ask(peer)
        elif peer.next > self._first:
            self._send_append(peer, ())
        else:
            self._begin_transfer(peer)
            if peer.transfer is None:
                self._show_life(peer)

    def _show_life(self, peer: Peer) -> None:
        """Nothing can be sent to this follower yet. It will find that the logs do not agree, and that there is a leader."""
        _, last, last_term = self._log[-1]
        peer.sent_at = self._sending_time()
        frame = m.append_frame(
            self._SyncObj__raftCurrentTerm, peer.sent_at, last, last_term, self._SyncObj__raftCommitIndex, ()
        )
        self._net.send_encoded(peer.id, frame)

    # One follower.

    def _replicate(self, peer: Peer) -> None:
        """Send what this follower lacks, as much as may be under way."""
        last = self._log[-1][1]
        while peer.open and peer.next <= last and len(peer.in_flight) < APPENDS_IN_FLIGHT_MAX:
            if peer.next <= self._first:
                self._begin_transfer(peer)
                return
            self._send_append(peer, self._batch(peer.next))

    def _batch(self, index: int) -> list[tuple[int, bytes]]:
        """The next entries from ``index`` on, by count and bytes, as an append carries them."""
        start = index - self._first
        entries: list[tuple[int, bytes]] = []
        size = 0
        for command, _, term in self._log[start : start + APPEND_MAX_ENTRIES]:
            entries.append((term, command))
            size += len(command)
            if size >= APPEND_MAX_BYTES:
                break
        return entries

    def _send_append(self, peer: Peer, entries: list[tuple[int, bytes]] | tuple[()]) -> None:
        prev = peer.next - 1
        now = self._sending_time()
        frame = m.append_frame(
            self._SyncObj__raftCurrentTerm,
            now,
            prev,
            self._log[prev - self._first][2],
            self._SyncObj__raftCommitIndex,
            entries,
        )
        if entries:
            peer.next += len(entries)
            peer.in_flight.append(peer.next - 1)
        peer.sent_at = now
        if not self._net.send_encoded(peer.id, frame):
            # The connection is going; it will be reported, and the next one begins from what is known to have arrived.
            peer.open = False

    def _on_ack(self, peer: Peer, message: list[Any]) -> None:
        _, _, sent, index, agreed, voter = message
        if self._SyncObj__raftState != LEADER:
            return
        if sent > peer.answered:
            peer.answered = sent
        recount = voter and not peer.voter
        if recount:
            logger.info("raft.voter node=%s peer=%s match=%d", self._config.node_id, peer.id, peer.match)
        peer.voter = voter
        if not agreed:
            if index + 1 < peer.next and not self._is_old_refusal(peer, sent):
                self._go_back(peer, index)
        elif peer.match < index < peer.next:
            self._took(peer, index)
            recount = True
        if recount and peer.match > self._SyncObj__raftCommitIndex:
            self._advance_commit()
        if peer.open and peer.next <= self._log[-1][1]:
            self._replicate(peer)
        if not voter:
            self._consider(peer)
        self._after_ack(peer)

    def _note_match(self, peer: Peer, index: int) -> None:
        """The follower's log is known to be ours up to ``index``."""
        peer.match = index
        in_flight = peer.in_flight
        while in_flight and in_flight[0] <= index:
            in_flight.popleft()
        transfer = peer.transfer
        if transfer is not None and transfer.snapshot.index <= index:
            peer.transfer = None
            peer.open = peer.connected

    def _go_back(self, peer: Peer, index: int) -> None:
        """The follower refused: begin anew after ``index``."""
        peer.next = max(index, peer.match) + 1
        peer.in_flight.clear()
        peer.restarted = self._clock()
        peer.transfer = None
        peer.open = peer.connected
        if peer.next <= self._first:
            self._begin_transfer(peer)
        elif peer.next > self._log[-1][1]:
            self._send_append(peer, ())

    # Decisions and duties of pieces.

    @abstractmethod
    def _took(self, peer: Peer, index: int) -> None:
        """The follower has all up to ``index``. (Forward)"""

    @abstractmethod
    def _is_old_refusal(self, peer: Peer, sent: float) -> bool:
        """Whether a refusal answers an append from before the follower's log was begun anew. (Backtrack)"""

    @abstractmethod
    def _proposals_blocked(self) -> bool:
        """Whether nothing may be proposed although this node leads. (handover)"""

    @abstractmethod
    def _begin_transfer(self, peer: Peer) -> None:
        """The follower lacks what the log does not hold any more. (snapsend)"""

    @abstractmethod
    def _ask(self, peer: Peer) -> None:
        """Ask how much of a snapshot has arrived. (snapsend)"""

    @abstractmethod
    def _consider(self, peer: Peer) -> None:
        """A node that does not count yet has answered. (membership)"""

    @abstractmethod
    def _after_ack(self, peer: Peer) -> None:
        """A follower has answered. (handover)"""


class Forward(Leading):
    """``next`` never goes back because something arrived.

    Hazard s02: in the released library an answer sets it to the index after the one acknowledged, although later entries are under way;
    they are sent again, and the follower cuts its log to write them.
    """

    def _took(self, peer: Peer, index: int) -> None:
        self._note_match(peer, index)


class CheckQuorum(Leading):
    """A leader that no majority answered for one election timeout steps down.

    Hazard R6: in the released library an isolated leader believes in itself for half a minute.
    """

    def _beat(self, now: float, late: bool) -> None:
        # After a stall of this process the answers may lie in the sockets: they are read before anything is concluded.
        if not late and self._lost_majority(now):
            self._become_follower(self.term, "no majority has answered within the election timeout")
            return
        super()._beat(now, late)
