"""Slow disk calls, off the loop, and their orderly end.

Knows: the env's disk thread. Must not know: what the calls do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from cluster.ports import Env

STOP_WAIT_S: Final = 5.0

Done = Callable[[BaseException | None], None]


class DiskWork:
    """Runs calls on the disk thread, one after the other, until it is stopped.

    After ``stop`` no call runs any more and no ``done`` comes: the owner may use and close the files on its own thread.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._running = threading.Lock()
        self._stopped = False

    def submit(self, work: Callable[[], object], done: Done) -> None:
        """Run ``work`` on the disk thread; then ``done`` on the loop, with what it raised or None."""

        def run() -> None:
            with self._running:
                if not self._stopped:
                    work()

        def report(error: BaseException | None) -> None:
            if not self._stopped:
                done(error)

        self._env.on_disk_thread(run, report)

    def stop(self) -> bool:
        """Let nothing begin any more, and wait STOP_WAIT_S for what runs. False: the disk hangs; leave its files alone."""
        waited = self._running.acquire(timeout=STOP_WAIT_S)
        self._stopped = True
        if waited:
            self._running.release()
        return waited
