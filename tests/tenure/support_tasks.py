"""Small coroutines for tests of tasks.

Knows: turns of a loop. Must not know: the product.
"""

from __future__ import annotations

import asyncio


async def turns(count: int) -> None:
    """Let the loop go round: enough turns for whatever is not waiting for something."""
    for _ in range(count):
        await asyncio.sleep(0)


async def waiting() -> None:
    await asyncio.Event().wait()


async def raising(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error
