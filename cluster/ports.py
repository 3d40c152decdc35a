"""The seams between the parts of a node, as protocols.

Knows: what each part asks of the others. Must not know: how any of them does it. Everything that touches the outside (clock, timer,
random numbers, sockets, files, threads) comes through ``Env``, so that a simulation can run the very same code.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from cluster.address import Address


class Handle(Protocol):
    """A timer that can be called off."""

    def cancel(self) -> None: ...


class Listener(Protocol):
    """A listening socket. ``address`` is where it really listens (the port, where 0 was asked for)."""

    @property
    def address(self) -> Address: ...

    def close(self) -> None: ...


class File(Protocol):
    """An open file of ours. Offsets are explicit; nothing is buffered in the process."""

    def pwrite(self, data: bytes, offset: int) -> None: ...
    def pread(self, size: int, offset: int) -> bytes: ...
    def size(self) -> int: ...
    def truncate(self, size: int) -> None: ...
    def preallocate(self, size: int) -> None: ...
    def datasync(self) -> None: ...
    def close(self) -> None: ...


class Disk(Protocol):
    """The files of one data directory. Names are relative to it. Every call may raise OSError."""

    def open(self, name: str, *, create: bool = False) -> File: ...
    def exists(self, name: str) -> bool: ...
    def listdir(self) -> list[str]: ...
    def read(self, name: str) -> bytes: ...
    def rename(self, old: str, new: str) -> None: ...
    def remove(self, name: str) -> None: ...
    def sync_directory(self) -> None: ...
    def close(self) -> None: ...


class Env(Protocol):
    """The outside world of one node or client, seen from its event loop.

    Unless said otherwise, methods are called on the loop's thread. Times are seconds.
    """

    def clock(self) -> float:
        """Monotonic, and counts suspension (CLOCK_BOOTTIME on Linux)."""

    def wall(self) -> float:
        """Seconds since 1970. Used for nothing but token floors and what people read."""

    @property
    def random(self) -> random.Random: ...

    def entropy(self, size: int) -> bytes:
        """Unpredictable bytes: ids, nonces."""

    def call_later(self, delay_s: float, fn: Callable[..., object], *args: object) -> Handle: ...
    def call_soon(self, fn: Callable[..., object], *args: object) -> Handle: ...
    def call_from_thread(self, fn: Callable[..., object], *args: object) -> None:
        """Like ``call_soon``, from any thread."""

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]: ...

    async def listen(
        self,
        address: Address,
        factory: Callable[[], asyncio.Protocol],
        backlog: int = 1024,
        make_room: Callable[[], bool] | None = None,
    ) -> Listener:
        """``make_room`` is asked when file descriptors are short: whether it has closed a connection that others should not wait for."""

    async def dial(
        self, address: Address, factory: Callable[[], asyncio.Protocol], timeout_s: float
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Open a connection. Resolution is asynchronous. Raises OSError or TimeoutError."""

    def disk(self, directory: str) -> Disk:
        """Open (create, with mode 0700) and lock a data directory. Raises OSError; BlockingIOError if another process has it."""

    def on_disk_thread(self, work: Callable[[], Any], done: Callable[[BaseException | None], None]) -> None:
        """Run ``work`` on the one thread for slow disk calls, in order; then ``done`` on the loop, with its error or None."""

    def on_work_thread(self, work: Callable[[], Any], done: Callable[[BaseException | None], None]) -> None:
        """The same on another thread, for long computation that leaves the interpreter to others."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What one side of a connection says of itself in the handshake.

    Attributes:
        role: ``"peer"``, ``"client"`` or ``"admin"``.
        node_id: a peer's member id (its advertised address); for clients what people see, ``hostname:pid``.
        incarnation: 16 bytes; a peer's data directory's, a client's process-wide client id.
        cluster_id: 16 bytes, or empty while none is known.
        info: of peers, for forming a group: ``{"blank": bool, "joined": bool, "formed": {node id: incarnation}, "peers": [node id, …],
            "member_since": [int, int], "wall_ms": int, "silence_ms": int}`` (so long it refuses its vote after hearing a leader), and
            ``"weight": int``.
    """

    role: str
    node_id: str
    incarnation: bytes
    cluster_id: bytes = b""
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Welcome:
    """What a node tells a client that it accepted: who it is, the epoch (0: it is not the raft leader), the leader's address (or empty)."""

    node_id: str
    cluster_id: bytes
    epoch: int
    leader: str


class Connection(Protocol):
    """One authenticated connection, over a socket or in memory: bytes of whole or partial frames in, whole frames out.

    The owner sets ``on_data`` and ``on_closed`` at once, in the callback that hands the connection over; nothing is delivered before.
    ``on_closed`` comes exactly once, with the reason, also after ``close``. ``reason`` is set as soon as it is closed, None before.
    """

    id: int
    hello: Hello
    heard_at: float
    reason: str | None
    on_data: Callable[[bytes], None]
    on_closed: Callable[[str], None]

    def write(self, data: bytes) -> None:
        """Queue whole frames. Over the buffer's limit the connection is closed with a reason; after a close this does nothing."""

    def unsent(self) -> int:
        """Bytes that were written and have not left this process yet."""

    def close(self, reason: str = "") -> None: ...


class PeerNet(Protocol):
    """Frames between the nodes of a raft group: at most one live connection per peer, in order, bounded.

    A frame is one payload (msgpack bytes) without its length prefix. Callbacks come on the loop's thread; a frame is never delivered
    before ``on_connected`` of its connection, nor after ``on_disconnected``.
    """

    on_frame: Callable[[str, bytes], None]
    on_connected: Callable[[str, Hello], None]
    on_disconnected: Callable[[str], None]

    def send(self, peer: str, payload: bytes) -> bool:
        """False when the peer is not connected or its buffer is full (then the connection is being closed)."""

    def send_encoded(self, peer: str, frame: bytes) -> bool:
        """Like ``send``, for a frame that has its length prefix already: encoded once for all peers."""

    def connected(self) -> frozenset[str]: ...
    def add_peer(self, peer: str) -> None: ...
    def drop_peer(self, peer: str) -> None: ...
    def close(self) -> None: ...


class Machine(Protocol):
    """What the log drives. Calls come in log order, on the loop's thread, and raise nothing but what is said here."""

    def apply(self, index: int, term: int, command: bytes) -> None:
        """A committed command of ours (not the engine's own entries).

        Raises CoordinationError if this node does not know its format: nothing of it was applied, and nothing after it may be.
        """

    def freeze(self) -> Callable[[], bytes]:
        """The whole state after the last ``apply``, to be called for its bytes once, on any thread, while the machine goes on."""

    def restore(self, state: bytes) -> None:
        """Replace the state. Raises ValueError if the bytes are not a state."""

    def role_changed(self, leading: bool, term: int, leader: str | None) -> None:
        """This node began (``leading``) or ceased to be the raft leader, or learned of another (its advertised address) or of none."""


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What became of an operation on the raft group.

    ``"done"``; ``"refused"``: nothing was changed, ``text`` and ``hint`` say why, ``again`` whether it may be granted later; ``"unsure"``:
    this node ceased to lead, ask the next leader.
    """

    kind: Literal["done", "refused", "unsure"]
    text: str = ""
    hint: str = ""
    again: bool = False


class Replicator(Protocol):
    """The replicated log, seen from the server."""

    @property
    def node_id(self) -> str: ...
    @property
    def term(self) -> int: ...
    @property
    def is_leader(self) -> bool: ...
    @property
    def leader(self) -> str | None:
        """Advertised address of the raft leader, if one is known."""

    def propose(self, command: bytes) -> int | None:
        """Append one command in this leader's term and send it.

        Returns its index, or None if this node is not the leader (nothing was appended). ``Machine.apply`` with this index and the
        current term means committed; another term at this index, or ``role_changed``, means that this one was lost or is not known.
        """

    def has_fresh_majority(self) -> bool:
        """Whether a majority answered something sent within the last (shortest election timeout, less drift)."""

    def change_members(self, add: bool, node_id: str, request: bytes, settled: Callable[[ChangeOutcome], None]) -> None:
        """Add or remove one member. ``settled`` is called once, maybe at once.

        ``request``: an id, the same when the same thing is asked again.
        """

    def hand_over(self, to: str | None, settled: Callable[[ChangeOutcome], None]) -> None:
        """Let another member (None: the one that is furthest) lead. ``settled`` as above."""

    def status(self) -> dict[str, Any]:
        """term, role, leader, members with match index and lag, commit_index, applied_index, has_quorum."""

    def close(self) -> None: ...
