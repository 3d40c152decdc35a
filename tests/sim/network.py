"""A network in virtual time: ordered bytes, delays, cuts, links that lose a direction.

Knows: connections between hosts, byte by byte in order as TCP gives them. Must not know: what the bytes mean.

Faults are of the kinds that TCP shows to a program: bytes that come late, a reset, a connection that goes silent. A cut
link delivers nothing until healed or reset; it never loses bytes from the middle of a stream.
"""

from __future__ import annotations

import asyncio
import collections
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster.address import Address

if TYPE_CHECKING:
    from tests.sim.host import Host

DELAY_MIN_S = 0.0001
DELAY_MEAN_S = 0.0004


class Pipe:
    """One direction of a connection. Whatever becomes of the link, bytes leave it in the order in which they were sent."""

    def __init__(self, network: Network, source: Host, target: Host) -> None:
        self.network = network
        self.source = source
        self.target = target
        self.receiver: End | None = None
        self.last_at = 0.0
        self.under_way: collections.deque[bytes | None] = collections.deque()
        self.overdue = 0
        self.dead = False

    def send(self, data: bytes | None) -> None:
        """Bytes, or None for the end of the stream."""
        if self.dead:
            return
        loop = self.network.loop
        self.under_way.append(data)
        self.last_at = max(self.last_at, loop.time() + self.network.delay_s(self.source, self.target))
        loop.call_at(self.last_at, self._arrive)

    def _arrive(self) -> None:
        """It is time for one more piece: the oldest, since the loop does not keep the order of equal timers."""
        if self.dead or self.receiver is None:
            return
        if self.network.is_cut(self.source, self.target):
            self.overdue += 1
            return
        self.target.run(self.receiver.arrived, self.under_way.popleft())

    def release(self) -> None:
        """The link works again."""
        overdue, self.overdue = self.overdue, 0
        for _ in range(overdue):
            self.network.loop.call_soon(self._arrive)


class End(asyncio.Transport):
    """One end of a connection, as asyncio's transports look to a protocol."""

    def __init__(self, network: Network, out: Pipe, back: Pipe) -> None:
        super().__init__()
        self._network = network
        self._out = out
        self._back = back
        self._protocol: Any = None
        self._closed = False
        self._paused = False
        self._waiting: list[bytes | None] = []

    def begin(self, protocol: Any) -> None:
        self._protocol = protocol
        self._back.receiver = self
        protocol.connection_made(self)

    def arrived(self, data: bytes | None) -> None:
        self._network.heard[(self._back.source.name, self._back.target.name)] = self._network.loop.time()
        if self._closed:
            return
        if self._paused:
            self._waiting.append(data)
        elif data is None:
            self._lose(None)
        else:
            self._protocol.data_received(data)

    def _lose(self, error: Exception | None) -> None:
        if not self._closed:
            self._closed = True
            self._out.send(None)
            self._out.source.run(self._protocol.connection_lost, error)

    def reset(self) -> None:
        """The connection breaks: what is under way is lost, both ends learn of it after a while."""
        self._out.dead = self._back.dead = True
        if not self._closed:
            self._closed = True
            self._out.source.run(self._protocol.connection_lost, ConnectionResetError("simulated reset"))

    # asyncio.Transport, as far as the product uses it.

    def write(self, data: Any) -> None:
        if not self._closed:
            self._out.send(bytes(data))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._out.send(None)
            self._out.source.soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closed

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self._out.source.soon(self.arrived, data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del high, low

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        del name
        return default


class Listening:
    def __init__(self, network: Network, address: Address) -> None:
        self._network = network
        self.address = address

    def close(self) -> None:
        self._network.listeners.pop(str(self.address), None)


class Network:
    """All hosts' connections.

    Attributes:
        heard: when something of the one host was last read by the other.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: random.Random) -> None:
        self.loop = loop
        self._rng = rng
        self.listeners: dict[str, tuple[Host, Callable[[], asyncio.Protocol]]] = {}
        self._cuts: collections.Counter[tuple[str, str]] = collections.Counter()
        self._slow: dict[tuple[str, str], float] = {}
        self._ends: list[tuple[End, End]] = []
        self.heard: dict[tuple[str, str], float] = {}

    def is_cut(self, source: Host, target: Host) -> bool:
        return self._cuts[(source.name, target.name)] > 0

    def delay_s(self, source: Host, target: Host) -> float:
        extra = self._slow.get((source.name, target.name), 0.0)
        return DELAY_MIN_S + self._rng.expovariate(1 / DELAY_MEAN_S) + extra * self._rng.random()

    def cut(self, source: str, target: str) -> None:
        """Nothing arrives in this direction until it is joined again, as often as it was cut."""
        self._cuts[(source, target)] += 1

    def join(self, source: str, target: str) -> None:
        self._cuts[(source, target)] -= 1
        if not self._cuts[(source, target)]:
            for pipe in self._pipes():
                if (pipe.source.name, pipe.target.name) == (source, target):
                    pipe.release()

    def slow(self, source: str, target: str, extra_s: float) -> None:
        """Everything takes up to so much longer in this direction; 0: no longer."""
        self._slow[(source, target)] = extra_s

    def heal(self) -> None:
        self._cuts.clear()
        self._slow.clear()
        for pipe in self._pipes():
            pipe.release()

    def _pipes(self) -> list[Pipe]:
        return [end._out for pair in self._ends for end in pair]

    def reset(self, one: str, other: str) -> int:
        """Break every connection between two hosts; how many there were."""
        broken = 0
        for first, second in list(self._ends):
            if {first._out.source.name, first._out.target.name} == {one, other}:
                first.reset()
                second.reset()
                self._ends.remove((first, second))
                broken += 1
        return broken

    def lose(self, one: str, other: str) -> None:
        """Every connection between two hosts breaks for the first one alone: what it sent is still under way, and arrives."""
        for first, second in list(self._ends):
            for end in (first, second):
                if (end._out.source.name, end._out.target.name) == (one, other):
                    end._lose(ConnectionResetError("simulated loss"))

    def host_died(self, host: Host) -> None:
        """The machine's kernel resets what the process had open."""
        for first, second in list(self._ends):
            if host in (first._out.source, first._out.target):
                first._out.dead = second._out.dead = True
                survivor = second if first._out.source is host else first
                self._ends.remove((first, second))
                if survivor._out.source is not host:
                    self.loop.call_later(DELAY_MEAN_S, survivor.reset)
        for address, (owner, _) in list(self.listeners.items()):
            if owner is host:
                del self.listeners[address]

    async def dial(
        self, source: Host, address: Address, factory: Callable[[], asyncio.Protocol], timeout_s: float
    ) -> Any:
        await asyncio.sleep(DELAY_MEAN_S * 2)
        found = self.listeners.get(str(address))
        if found is None:
            raise ConnectionRefusedError(f"{address}: connection refused (simulated)")
        target, target_factory = found
        if self.is_cut(source, target) or self.is_cut(target, source) or target.paused:
            await asyncio.sleep(timeout_s)
            raise TimeoutError(f"{address}: no answer (simulated)")
        there, back = Pipe(self, source, target), Pipe(self, target, source)
        near, far = End(self, there, back), End(self, back, there)
        self._ends.append((near, far))
        protocol = factory()
        far.begin(target_factory())
        near.begin(protocol)
        return near, protocol
