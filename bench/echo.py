"""A bare echo server: what this machine's loop and kernel allow at most, without any work between reading and writing.

Knows: one socket protocol of three lines. Must not know: frames, the product.

    python -m bench.echo        prints "HOST:PORT LOOP" once it listens, and runs until its standard input ends
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

from cluster.address import Address
from cluster.env import RealEnv, new_loop


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


async def serve(loop: asyncio.AbstractEventLoop) -> None:
    listener = await RealEnv(loop).listen(Address("127.0.0.1", 0), Echo)
    sys.stdout.write(f"{listener.address} {type(loop).__module__}\n")
    sys.stdout.flush()
    # Who started this holds the other end; its end, however it comes, ends this.
    await loop.run_in_executor(None, sys.stdin.read)
    listener.close()


def main() -> None:
    loop = new_loop()
    try:
        loop.run_until_complete(serve(loop))
    finally:
        loop.close()


if __name__ == "__main__":
    main()
