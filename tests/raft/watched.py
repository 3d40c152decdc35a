"""What the lab sees inside an adapter while it works: damage that another piece behind it would mend before anybody is hurt.

Knows: the seams between the adapter's pieces. Must not know: which pieces are there, which weather it is.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from cluster.raft.adapter import Adapter
from cluster.raft.listing import names_members, read_members
from cluster.raft.peer import Peer
from cluster.raft.snapinstall import Identity
from cluster.raft.timers import LATE_S

if TYPE_CHECKING:
    from tests.raft.sim import Weather

    Pieces = Adapter
else:
    # Which pieces there are, the watched class says.
    Pieces = object


def watched(adapter_class: type[Adapter], world: Weather) -> Any:
    """The same adapter, which tells the ledger."""
    return type(adapter_class.__name__, (Watch, adapter_class), {"world": world})


class Watch(Pieces):
    """- Pieces mixed: what was put together from pieces that nothing had damaged is what the leader sent.
    - Committed, and removed: no snapshot takes away what was committed and already is in the log after it.
    - Stood unread: who stood still does not stand for election while its leader's messages lie in its sockets.
    - Changed too early: no leader begins a change of the members before an entry of its own term is committed, or another change's.
    """

    world: Weather
    late_s = 0.0

    def _install(self, peer: Peer, sent: float, identity: Identity, data: bytes) -> None:
        if zlib.crc32(data) != identity.crc:
            self.world.damage("PiecesMixed", f"{self._config.node_id} has another snapshot of {identity.index} than was sent")
        super()._install(peer, sent, identity, data)

    def _kept(self, identity: Identity, *args: Any) -> None:
        had = self.world.ledger.committed_through(self._log)
        super()._kept(identity, *args)
        if self._log[-1][1] < had:
            text = f"{self._config.node_id} had what was committed through {had}, and has {self._log[-1][1]} after the snapshot"
            self.world.damage("CommittedRemoved", text)

    def _append_entry(self, command: bytes) -> int:
        if names_members(command):
            commit, names = self._SyncObj__raftCommitIndex, read_members(0, command).names
            early = self._log[commit - self._first][2] != self.term or self._lists[-1].index > commit
            if early and names != self._members:
                self.world.damage("ChangedTooEarly", f"{self._config.node_id} makes {names} of {self._members}")
        return super()._append_entry(command)

    def _on_timer(self) -> None:
        self.late_s = self._clock() - self._timer_at
        super()._on_timer()

    def _campaign(self, forced: bool = False) -> None:
        name, leader = self._config.node_id, self._SyncObj__raftLeader
        if not forced and self.late_s >= LATE_S and leader is not None and leader.id in self.world.unread.get(name, ()):
            self.world.damage("StoodUnread", f"{name} stands, and has not read what its leader {leader.id} says")
        super()._campaign(forced)
