"""A command under its guard, seen from ``lock``: start it, move its deadline, pass signals on, learn how it ended.

Knows: the guard's program and its lines (``cluster/cli/guard.py``), processes, pipes. Must not know: leases, the network.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from cluster.cli import guard as guard_program

_ORPHAN_PATIENCE_S = 5.0


class Command:
    """One command and its guard. Made on a running loop.

    Attributes:
        reports: the guard's lines, as lists of words; ``[]`` when it has ended.
    """

    def __init__(self) -> None:
        self.reports: asyncio.Queue[list[str]] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._guard: subprocess.Popen[bytes] | None = None
        self._control = -1
        self._status = -1
        self._pending = b""
        self._deadline = 0.0
        self._pid = 0

    def start(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        *,
        deadline: float,
        term_lead: float,
        kill_lead: float,
        grace: float,
    ) -> None:
        """Start the guard, which starts the command.

        Args:
            argv: the command.
            environ: what is added to the environment.
            deadline: see ``guard.Guard``, as the rest; boot-clock seconds and seconds.
        """
        control_read, self._control = os.pipe()
        self._status, status_write = os.pipe()
        numbers = [control_read, status_write, deadline, term_lead, kill_lead, grace]
        try:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", guard_program.__file__, *map(repr, numbers), *argv],
                pass_fds=(control_read, status_write),
                env={**os.environ, **environ},
                # Ctrl-C at the terminal reaches this process alone, which passes it on once.
                start_new_session=True,
            )
        finally:
            os.close(control_read)
            os.close(status_write)
        self._deadline = deadline
        os.set_blocking(self._status, False)
        os.set_blocking(self._control, False)
        self._loop.add_reader(self._status, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._status, 4096)
        except BlockingIOError:
            return
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            words = line.decode().split()
            if words[0] == "started":
                self._pid = int(words[1])
            self.reports.put_nowait(words)
        if not data:
            self._loop.remove_reader(self._status)
            self.reports.put_nowait([])

    def move_deadline(self, deadline: float) -> None:
        """Tell the guard until when the command may run; a change below a millisecond is not worth a line."""
        if abs(deadline - self._deadline) >= 0.001:
            self._deadline = deadline
            self._tell(f"deadline {deadline!r}")

    def send(self, number: int) -> None:
        """Pass a signal on to the command's process group."""
        self._tell(f"signal {number}")

    def end(self, number: int) -> None:
        """Send ``number``, and KILL when the grace is over."""
        self._tell(f"end {number}")

    def _tell(self, line: str) -> None:
        try:
            os.write(self._control, line.encode() + b"\n")
        except (BrokenPipeError, BlockingIOError):
            return  # The guard has ended, and its last report says so; or it was stopped, and the deadline that it knows is the safe one.

    def kill_orphan(self) -> bool:
        """After the guard has ended without a last report: end the process group ourselves. Returns whether it is seen to be gone."""
        if not self._pid:
            return True
        until = time.monotonic() + _ORPHAN_PATIENCE_S
        while time.monotonic() < until:
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except ProcessLookupError:
                return True
            except PermissionError:
                return False
            # The kernel tells nobody when the last process of a group is gone: look again.
            time.sleep(0.005)
        return False

    def close(self) -> None:
        """Close the pipes and collect the guard; where it still runs, the closed pipe makes it end the command."""
        if self._guard is None:
            return
        self._loop.remove_reader(self._status)
        os.close(self._control)
        os.close(self._status)
        self._guard.wait()
