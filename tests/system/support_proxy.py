"""A TCP proxy in front of a node that can lose whole replies to clients.

Knows: frames (u32 length, payload), the first message of a handshake. Must not know: what is in a reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence

from cluster.codec import unpack


class Proxy:
    """Forwards ``listen`` to ``target``, ports of the loopback interface. ``dropping``: frames to clients vanish."""

    def __init__(self, listen: int, target: int) -> None:
        self.listen = listen
        self.target = target
        self.dropping = False
        self.dropped = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.listen)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            back, forth = await asyncio.open_connection("127.0.0.1", self.target)
            try:
                head, payload = await _frame(reader)
                forth.write(head + payload)
                hello = unpack(payload)
                is_client = isinstance(hello, list) and len(hello) > 2 and hello[2] == "client"
                both = (self._plain(reader, forth), self._frames(back, writer, is_client))
                pumps = [asyncio.ensure_future(pump) for pump in both]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
            finally:
                forth.close()
        writer.close()

    async def _plain(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()

    async def _frames(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_client: bool) -> None:
        while True:
            head, payload = await _frame(reader)
            if is_client and self.dropping:
                self.dropped += 1
                continue
            writer.write(head + payload)
            await writer.drain()


async def _frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(4)
    return head, await reader.readexactly(int.from_bytes(head, "big"))


@contextlib.contextmanager
def proxies(pairs: Sequence[tuple[int, int]]) -> Iterator[list[Proxy]]:
    """Proxies for ``(listen, target)`` pairs, on a loop in a thread of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    made = [Proxy(listen, target) for listen, target in pairs]
    try:
        for proxy in made:
            asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(10)
        yield made
    finally:
        for proxy in made:
            asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
