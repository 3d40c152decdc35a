"""A program under test: it waits for a name, or works under it, until a signal ends it.

Usage: ``program_elector ADDRESS NAME FORM LEASE_SECONDS`` with a form of ``FORMS``. It prints ``waiting`` before it asks for the
name, ``begun`` when the action runs, and ``ended`` after the action's own clean-up.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

import tenure


def options() -> tenure.ElectionOptions:
    return tenure.ElectionOptions(wait_time=60, lease_time=float(sys.argv[4]), auto_extend=True)


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def work() -> None:
    say("begun")
    try:
        time.sleep(60)
    finally:
        time.sleep(0.2)
        say("ended")


async def async_work() -> None:
    say("begun")
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.2)
        say("ended")


def blocking(address: str, name: str) -> None:
    with tenure.connect(address) as coordinator:
        say("waiting")
        tenure.LeaderElector(coordinator, options()).run_if_leader(name, work)


def body(address: str, name: str) -> None:
    with tenure.connect(address) as coordinator:
        say("waiting")
        with tenure.LeaderElector(coordinator, options()).leading(name):
            work()


def without_close(address: str, name: str) -> None:
    coordinator = tenure.connect(address)
    say("waiting")
    tenure.LeaderElector(coordinator, options()).run_if_leader(name, work)


def in_a_loop(address: str, name: str) -> None:
    async def main() -> None:
        async with await tenure.aio.connect(address) as coordinator:
            say("waiting")
            await tenure.AsyncLeaderElector(coordinator, options()).run_if_leader(name, async_work)

    asyncio.run(main())


FORMS = {"blocking": blocking, "body": body, "without-close": without_close, "asyncio": in_a_loop}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    FORMS[sys.argv[3]](sys.argv[1], sys.argv[2])
