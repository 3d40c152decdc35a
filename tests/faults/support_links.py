"""The network between nodes, and from clients to nodes, as proxies that a test can disturb link by link.

Knows: sockets; of the handshake only who it is that connects. Must not know: what the messages mean.

A link is a direction, from one node (or from ``CLIENT``, or ``ANY``) to another. As in a real network a blocked link loses nothing: what
was sent stays under way, and arrives late when the link is healed, the end of a connection too. ``cut`` ends connections at once; ``drop``
has what is sent on them vanish from then on, as a firewall does that has forgotten them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from cluster.codec import unpack

CLIENT = "client"
ANY = "any"
HELLO_MAX_BYTES = 4096
CHUNK_BYTES = 16 << 10
# So much of one direction is under way at most; then the sender finds its socket full.
CHUNKS_MAX = 32
ANSWERS_WITHIN_S = 60.0

T = TypeVar("T")


@dataclass
class Rule:
    """What is wrong with one link: nothing passes; everything takes longer (seconds); so many bytes a second pass (0: all)."""

    blocked: bool = False
    delay_s: float = 0.0
    bytes_per_s: float = 0.0


@dataclass(eq=False)
class Pipe:
    """One connection through a proxy. ``lost``: what is sent on it vanishes."""

    source: str
    target: str
    writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    lost: bool = False
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Links:
    """Proxies in front of nodes. ``doors``: the address that everybody is told, and the port on which that node really listens."""

    def __init__(self, doors: Mapping[str, int]) -> None:
        self.doors = dict(doors)
        self.carried: Counter[tuple[str, str]] = Counter()
        self._rules: dict[tuple[str, str], Rule] = {}
        self._pipes: set[Pipe] = set()
        self._handlers: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)

    # What a test does.

    def block(self, source: str, target: str) -> None:
        """Nothing passes from ``source`` to ``target`` any more; the other direction is untouched."""
        self._change(lambda: setattr(self._rule(source, target), "blocked", True))

    def part(self, one: str, other: str) -> None:
        """Nothing passes between the two."""
        self.block(one, other)
        self.block(other, one)

    def isolate(self, node: str) -> None:
        """Nothing passes between this node and the other nodes. Clients still reach it."""
        for other in self.doors:
            if other != node:
                self.part(node, other)

    def delay(self, source: str, target: str, seconds: float) -> None:
        self._change(lambda: setattr(self._rule(source, target), "delay_s", seconds))

    def delay_nodes(self, seconds: float) -> None:
        """Everything between any two nodes takes this long, in each direction."""
        for one, other in itertools.permutations(self.doors, 2):
            self.delay(one, other, seconds)

    def throttle(self, source: str, target: str, bytes_per_s: float) -> None:
        self._change(lambda: setattr(self._rule(source, target), "bytes_per_s", bytes_per_s))

    def cut(self, one: str, other: str) -> int:
        """End all connections between the two at once, whoever opened them. Returns how many there were."""
        return self._call(lambda: self._cut(one, other))

    def drop(self, one: str, other: str) -> int:
        """From now on whatever is sent on the present connections between the two vanishes. Returns how many these are."""
        return self._call(lambda: self._drop(one, other))

    def heal(self) -> None:
        """Take back all that is wrong with links. Connections that were dropped stay so until their ends give them up."""
        self._change(self._rules.clear)

    @property
    def disturbed(self) -> bool:
        return bool(self._rules)

    # How it is done, on the loop's thread.

    def _rule(self, source: str, target: str) -> Rule:
        return self._rules.setdefault((source, target), Rule())

    def _between(self, one: str, other: str) -> list[Pipe]:
        return [pipe for pipe in self._pipes if _fits(one, other, pipe) or _fits(other, one, pipe)]

    def _cut(self, one: str, other: str) -> int:
        pipes = self._between(one, other)
        for pipe in pipes:
            for writer in pipe.writers:
                writer.transport.abort()
        return len(pipes)

    def _drop(self, one: str, other: str) -> int:
        pipes = self._between(one, other)
        for pipe in pipes:
            pipe.lost = True
        return len(pipes)

    def _is_blocked(self, source: str, target: str) -> bool:
        rule = self._rules.get((source, target))
        return rule is not None and rule.blocked

    async def _passable(self, *ways: tuple[str, str]) -> None:
        while any(self._is_blocked(*way) for way in ways):
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _open(self) -> None:
        for address, port in self.doors.items():
            host, _, shown = address.rpartition(":")
            self._servers.append(await asyncio.start_server(self._acceptor(address, port), host, int(shown)))

    def _acceptor(
        self, target: str, port: int
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], asyncio.Task[None]]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> asyncio.Task[None]:
            task = self._loop.create_task(self._serve(target, port, reader, writer))
            self._handlers.add(task)
            task.add_done_callback(self._handlers.discard)
            return task

        return accept

    async def _serve(self, target: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            hello, source = await self._who(reader)
            await self._passable((source, target), (target, source))
            back, forth = await asyncio.open_connection(target.rpartition(":")[0], port)
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
            return
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        pipe = Pipe(source, target, (writer, forth))
        self._pipes.add(pipe)
        forth.write(hello)
        ways = ((source, target, reader, forth), (target, source, back, writer))
        pipe.tasks = [self._loop.create_task(self._carry(pipe, *way)) for way in ways]
        try:
            await asyncio.wait(pipe.tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._pipes.discard(pipe)
            for task in pipe.tasks:
                task.cancel()
            await asyncio.gather(*pipe.tasks, return_exceptions=True)
            for each in pipe.writers:
                each.close()

    async def _who(self, reader: asyncio.StreamReader) -> tuple[bytes, str]:
        """The first message of a connection, and whose it is."""
        head = await reader.readexactly(4)
        size = int.from_bytes(head, "big")
        if size > HELLO_MAX_BYTES:
            return head, CLIENT
        payload = await reader.readexactly(size)
        hello = unpack(payload)
        is_node = isinstance(hello, list) and len(hello) > 4 and hello[2] == "peer" and hello[4] in self.doors
        return head + payload, str(hello[4]) if is_node else CLIENT

    async def _carry(
        self, pipe: Pipe, source: str, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One direction of a connection, until its end has been carried too."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_MAX)

        async def take() -> None:
            data = b"-"
            while data:
                data = b""
                with contextlib.suppress(OSError):
                    data = await reader.read(CHUNK_BYTES)
                rule = self._rules.get((source, target))
                await under_way.put((self._loop.time() + (rule.delay_s if rule is not None else 0.0), data))

        taking = self._loop.create_task(take())
        try:
            while True:
                due, data = await under_way.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                await self._passable((source, target))
                if pipe.lost:
                    continue
                if not data:
                    return
                writer.write(data)
                await writer.drain()
                self.carried[(source, target)] += len(data)
                rule = self._rules.get((source, target))
                if rule is not None and rule.bytes_per_s:
                    await asyncio.sleep(len(data) / rule.bytes_per_s)
        except OSError:
            return
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

    async def _shut(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [*self._handlers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # From other threads.

    def _call(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(ANSWERS_WITHIN_S)

    def _change(self, work: Callable[[], object]) -> None:
        def both() -> None:
            work()
            self._wake()

        self._call(both)

    @contextlib.contextmanager
    def running(self) -> Iterator[Links]:
        """Open the doors for the time of a ``with`` block."""
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(ANSWERS_WITHIN_S)
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(ANSWERS_WITHIN_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def _fits(source: str, target: str, pipe: Pipe) -> bool:
    return source in (pipe.source, ANY) and target in (pipe.target, ANY)
