"""The seam to pysyncobj: the one release it is made for, the private names it touches, what is patched.

Knows: pysyncobj 0.3.17's inside. Must not know: what is done with it.

What importing this module does to the process, all of it:

- pysyncobj itself changes two entries of the dispatch table of ``pickle._Unpickler``, the pure Python unpickler. Nothing here unpickles.
- Two names of the module ``pysyncobj.syncobj`` are replaced, once: ``createJournal`` and ``monotonicTime``. Each looks whether the calling
  thread is inside a call of one of our engines (``stock``). If so it answers with that engine's journal and clock; if not (the
  application uses pysyncobj by itself) the original answers. So two nodes in one process share neither, on one thread or on several.
- pysyncobj keeps the time-outs of its name resolver in a process-wide object and every ``SyncObj`` sets them. Nothing here resolves names.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

# The library has no types; what is used of it is declared below.
import pysyncobj.syncobj as _module  # type: ignore[import-untyped]
from pysyncobj.config import SyncObjConf as _SyncObjConf  # type: ignore[import-untyped]
from pysyncobj.version import VERSION as _version  # type: ignore[import-untyped]

VERSION: Final = "0.3.17"

FOLLOWER: Final = 0
CANDIDATE: Final = 1
LEADER: Final = 2

NO_OP: Final = b"\x01"
"""The engine's own entry, which a new leader appends. Commands of ours have at least two bytes."""

ATTRIBUTES: Final = (
    "_SyncObj__raftState",
    "_SyncObj__raftCurrentTerm",
    "_SyncObj__raftLeader",
    "_SyncObj__raftElectionDeadline",
    "_SyncObj__raftCommitIndex",
    "_SyncObj__raftLastApplied",
    "_SyncObj__raftMatchIndex",
    "_SyncObj__otherNodes",
    "_SyncObj__transferInProgress",
    "_poller",
)
"""Private attributes that the adapter reads or writes; each is set in ``SyncObj.__init__``."""

METHODS: Final = (
    "_SyncObj__onMessageReceived",
    "_SyncObj__onNodeConnected",
    "_SyncObj__onNodeDisconnected",
    "_SyncObj__onBecomeLeader",
    "_SyncObj__setCurrentTerm",
    "_SyncObj__setState",
    "_SyncObj__sendAppendEntries",
    "_SyncObj__applyLogEntries",
    "_SyncObj__tryLogCompaction",
    "_SyncObj__loadDumpFile",
    "_SyncObj__generateRaftTimeout",
    "_applyCommand",
    "doTick",
    "transferLeadership",
)
"""Methods that the adapter calls or overrides."""

_R = TypeVar("_R")

if TYPE_CHECKING:

    class Node:
        """What pysyncobj calls a node."""

        id: str

        def __init__(self, id: str) -> None: ...

    class SyncObj:
        """The part of ``pysyncobj.SyncObj`` that the adapter touches."""

        _SyncObj__raftState: int
        _SyncObj__raftCurrentTerm: int
        _SyncObj__raftLeader: Node | None
        _SyncObj__raftElectionDeadline: float
        _SyncObj__raftCommitIndex: int
        _SyncObj__raftLastApplied: int
        _SyncObj__raftMatchIndex: dict[Node, int]
        _SyncObj__otherNodes: set[Node]
        _SyncObj__transferInProgress: bool
        _poller: Any

        def __init__(self, self_node: Node, other_nodes: list[Node], conf: Any, transport: Any) -> None: ...
        def doTick(self, timeToWait: float = 0.0) -> None: ...
        def transferLeadership(self, node: Node, callback: Callable[[Any, int], None]) -> None: ...
        def _SyncObj__onMessageReceived(self, node: Node, message: dict[str, Any]) -> None: ...
        def _SyncObj__onNodeConnected(self, node: Node) -> None: ...
        def _SyncObj__onNodeDisconnected(self, node: Node) -> None: ...
        def _SyncObj__onBecomeLeader(self) -> None: ...
        def _SyncObj__setCurrentTerm(self, term: int, voted_for: str | None) -> None: ...
        def _SyncObj__setState(self, state: int) -> None: ...

else:
    Node = _module.Node
    SyncObj = _module.SyncObj


class Member(Node):
    """A member of the raft group. There is one object per member, so identity is equality, and costs nothing.

    The engine keeps members in sets and asks for votes in their order: the hash must be the same in every process, or a simulated run
    could not be repeated.
    """

    __eq__ = object.__eq__
    __ne__ = object.__ne__

    def __hash__(self) -> int:
        return zlib.crc32(self.id.encode())


def check(version: str, syncobj: Any) -> None:
    """Raise ImportError unless this is the release that the adapter was made for, down to each private name."""
    if version != VERSION:
        raise ImportError(f"the raft adapter was made for pysyncobj {VERSION}, this is {version}")
    made = set(syncobj.__init__.__code__.co_names)
    missing = [name for name in ATTRIBUTES if name not in made]
    missing += [name for name in METHODS if not callable(getattr(syncobj, name, None))]
    if missing:
        raise ImportError(f"pysyncobj {version} lacks {missing}: this is not the release from the package index")


check(_version, _module.SyncObj)


class _Inside(threading.local):
    """Which engine this thread is inside of."""

    journal: Any = None
    clock: Callable[[], float] | None = None


_inside = _Inside()
_create_journal = _module.createJournal
_monotonic = _module.monotonicTime


def _our_journal(*args: Any) -> Any:
    return _create_journal(*args) if _inside.clock is None else _inside.journal


def _our_clock() -> float:
    clock = _inside.clock
    return _monotonic() if clock is None else clock()


_module.createJournal = _our_journal
_module.monotonicTime = _our_clock


def stock(journal: Any, clock: Callable[[], float], call: Callable[..., _R], *args: Any) -> _R:
    """Run one call of pysyncobj's code with this journal and this clock. Every entry into it goes through here."""
    before = _inside.journal, _inside.clock
    _inside.journal, _inside.clock = journal, clock
    try:
        return call(*args)
    finally:
        _inside.journal, _inside.clock = before


class _NothingToPoll:
    """Stands for pysyncobj's poller: our loop reads the sockets."""

    def poll(self, timeout: float) -> None:
        """A tick ends with this call."""


NOTHING_TO_POLL: Final = _NothingToPoll()


def engine_config(election_min_s: float, election_max_s: float) -> Any:
    """pysyncobj's settings of one node. All that moves entries or state is ours, so most of them have nothing to say."""
    return _SyncObjConf(
        autoTick=False,
        raftMinTimeout=election_min_s,
        raftMaxTimeout=election_max_s,
        appendEntriesPeriod=election_min_s / 4,
        leaderFallbackTimeout=election_max_s,
        connectionTimeout=election_max_s,
        useFork=False,
        journalFile=None,
        fullDumpFile=None,
        dynamicMembershipChange=False,
    )
