"""A program under test that comes to its end while runs of the forms that do not block are under way.

Usage: ``program_detached ADDRESS NAME FORM SECONDS`` with a form of ``FORMS``, or ``latch``. Its action prints ``begun``, and ``ended``
so many seconds after the program's own end has begun. ``waiting`` is printed once a second run stands in line; then the program is
over.
"""

from __future__ import annotations

import concurrent.futures
import sys
import threading
import time
from typing import Any

import tenure


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


leaving = threading.Event()


def work() -> None:
    say("begun")
    leaving.wait()
    time.sleep(float(sys.argv[4]))
    say("ended")


def started() -> concurrent.futures.Future[None]:
    """The work on a daemon thread, as a program of its own has it."""
    future: concurrent.futures.Future[None] = concurrent.futures.Future()

    def run() -> None:
        work()
        future.set_result(None)

    threading.Thread(target=run, daemon=True).start()
    return future


FORMS: dict[str, tuple[Any, Any]] = {
    "future": (tenure.FutureLeaderElector, started),
    "thread": (tenure.ThreadLeaderElector, work),
}


def latch(coordinator: tenure.Coordinator) -> None:
    leading = tenure.LeaderLatch(coordinator, on_lost=lambda lease: say("ended"))
    leading.start(sys.argv[2])
    if leading.wait(60):
        say("waiting")


def main() -> None:
    coordinator = tenure.connect(sys.argv[1])
    if sys.argv[3] == "latch":
        latch(coordinator)
        return
    kind, action = FORMS[sys.argv[3]]
    elector = kind(coordinator, tenure.ElectionOptions(wait_time=60, lease_time=3, auto_extend=True))
    elector.run_if_leader(sys.argv[2], action)
    while coordinator.state(sys.argv[2]).leader is None:
        time.sleep(0.01)
    elector.run_if_leader(sys.argv[2], action)
    while not coordinator.state(sys.argv[2]).waiters:
        time.sleep(0.01)
    say("waiting")
    leaving.set()


if __name__ == "__main__":
    main()
