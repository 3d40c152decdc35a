"""Attackers by the thousand against some nodes, for as long as a siege lasts: who is closed is followed by another.

Knows: threads, sockets, how often to call. Must not know: what a test wants to show.
"""

from __future__ import annotations

import itertools
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from cluster.codec import frame, pack
from cluster.env import boot_clock
from tests.net.attackers import call

TICK_S = 0.1
ENDS_WITHIN_S = 60.0


class Siege:
    """Attackers on threads. ``came`` counts those that got through to a node, ``turned_away`` those that were closed before they had done
    what they came for. ``faults``: whatever else went wrong with them."""

    def __init__(self) -> None:
        self.came: Counter[str] = Counter()
        self.turned_away: Counter[str] = Counter()
        self.faults: list[str] = []
        self._counting = threading.Lock()
        self._over = threading.Event()
        self._open: list[socket.socket] = []
        self._leading: list[threading.Thread] = []
        self._flooding: list[threading.Thread] = []

    @contextmanager
    def laid(self) -> Iterator[Siege]:
        """It is over when the block is left."""
        try:
            yield self
        finally:
            self._over.set()
            for thread in (*self._leading, *self._flooding):
                thread.join(ENDS_WITHIN_S)
            for caller in self._open:
                caller.close()

    def lead(self, what: str, make: Callable[[], socket.socket]) -> None:
        """One attacker, who stays to the end."""

        def work() -> None:
            caller = self._one(what, make)
            if caller is not None:
                self._open.append(caller)

        self._start(self._leading, what, work)

    def threads(self) -> set[int]:
        """The attackers' threads, by the numbers that the system knows them by."""
        return {thread.native_id for thread in (*self._leading, *self._flooding) if thread.native_id is not None}

    def wait(self) -> None:
        """Until all whom ``lead`` brought have done what they came for."""
        for thread in self._leading:
            thread.join(ENDS_WITHIN_S)
            assert not thread.is_alive(), f"{thread.name} is not done"

    def flood(self, what: str, makes: Sequence[Callable[[], socket.socket]], per_s: int, most: int) -> None:
        """``most`` at once, then so many new ones a second, by one way of ``makes`` after the other; the oldest beyond ``most`` leave."""
        ways = itertools.cycle(makes)

        def work() -> None:
            callers: deque[socket.socket] = deque()
            count, called_at = most, boot_clock()
            try:
                while not self._over.is_set():
                    for _ in range(count):
                        caller = self._one(what, next(ways))
                        if caller is not None:
                            callers.append(caller)
                    while len(callers) > most:
                        callers.popleft().close()
                    self._over.wait(TICK_S)
                    # By the clock: a thread that comes late has more to do.
                    count = min(most, round(per_s * (boot_clock() - called_at)))
                    called_at = boot_clock()
            finally:
                for caller in callers:
                    caller.close()

        self._start(self._flooding, what, work)

    def drip(self, address: str, count: int) -> None:
        """So many at a time say their hello by a byte now and then; another comes for each that is closed."""
        hello = frame(pack(["tenure", 1, "client", b"", "x" * 200, b"I" * 16, b"N" * 32, {}]))

        def work() -> None:
            callers: dict[socket.socket, int] = {}
            try:
                while not self._over.wait(TICK_S):
                    # Not all at once: a node that takes longer for one is not meant to fall behind its callers for ever.
                    for _ in range(min(count - len(callers), count // 10)):
                        caller = self._one("drip", lambda: call(address))
                        if caller is not None:
                            callers[caller] = 0
                    for caller, at in list(callers.items()):
                        try:
                            caller.sendall(hello[at : at + 1])
                            callers[caller] = at + 1
                        except OSError:
                            caller.close()
                            del callers[caller]
            finally:
                for caller in callers:
                    caller.close()

        self._start(self._flooding, "drip", work)

    def _one(self, what: str, make: Callable[[], socket.socket]) -> socket.socket | None:
        with suppress(ConnectionError):
            caller = make()
            self._count(self.came, what)
            return caller
        self._count(self.turned_away, what)
        return None

    def _count(self, counts: Counter[str], what: str) -> None:
        with self._counting:
            counts[what] += 1

    def _start(self, among: list[threading.Thread], what: str, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as error:
                self.faults.append(f"{what}: {error!r}")

        thread = threading.Thread(target=guarded, name=what)
        among.append(thread)
        thread.start()
