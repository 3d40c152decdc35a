"""The process between ``lock`` and its command: it ends the command's process group before the lease can pass to another.

It runs as a program of its own, by its path, so that neither a stopped nor a killed ``lock`` leaves the command running: the end of
the control pipe and the lease's deadline on the machine's clock are enough for it to act. Knows: processes, signals, pipes, one
deadline. Must not know: leases, the network, any other module of this project (it is started without our packages on its path).

``lock`` writes lines to the control pipe: ``deadline SECONDS`` (of the boot clock), ``signal N``, ``end N`` (send N, and KILL after the
grace). The guard writes lines to the status pipe: ``started PID``, ``failed ERRNO``, ``late`` (it was time to end before the command was
started: nothing ran), ``ending WHY``, ``exited CODE``; the last only when nothing of the process group runs any more.

Nothing here waits for stderr: its reader may be gone, or stopped, and the deadline comes all the same.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# Also bounds how long a machine that slept keeps the command running after it wakes: select's timeout does not count the sleep.
_LONGEST_NAP_S = 0.5
_REAP_PATIENCE_S = 2.0
_SAY_PATIENCE_S = 0.5
_LATE = -1


def clock() -> float:
    """The same clock as ``cluster.env.boot_clock``."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def prctl(option: int, value: int) -> None:
    """Ask Linux for ``option``; where there is no such thing the pipe alone has to do."""
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return


class Guard:
    """One command and the deadline it must not outlive.

    Args:
        control: read end of the pipe from ``lock``.
        status: write end of the pipe to ``lock``.
        deadline: boot-clock seconds at which nothing of the command may run any more.
        term_lead: seconds before the deadline at which TERM is sent.
        kill_lead: seconds before the deadline at which KILL is sent.
        grace: seconds between a requested end and KILL, if the deadline leaves them.
    """

    def __init__(
        self, control: int, status: int, deadline: float, term_lead: float, kill_lead: float, grace: float
    ) -> None:
        self.control: int | None = control
        self.status = status
        self.deadline = deadline
        self.term_lead = term_lead
        self.kill_lead = kill_lead
        self.grace = grace
        self.pid = 0
        self.code: int | None = None
        self.ending_at: float | None = None
        self.killed = False
        self.asked = 0
        self._pending = b""
        self._early: list[int] = []
        self._saying: threading.Thread | None = None
        self._wake_read, self._wake_write = os.pipe()
        for fd in (control, status):
            os.set_inheritable(fd, False)
        for fd in (self._wake_read, self._wake_write):
            os.set_blocking(fd, False)

    def tell(self, line: str) -> None:
        """Report to ``lock``, if it still lives."""
        try:
            os.write(self.status, line.encode() + b"\n")
        except OSError:
            return

    def say(self, text: str) -> None:
        """Write a line to stderr without waiting for it. It is shared with others, so it cannot be made non-blocking."""
        if sys.stderr is None:
            return
        self._saying = threading.Thread(target=_write_to_stderr, args=(f"tenure: {text}\n".encode(),), daemon=True)
        try:
            self._saying.start()
        except RuntimeError:
            self._saying = None  # There is no thread to be had.

    def finish(self) -> None:
        """Give what was said a moment to be written."""
        if self._saying is not None:
            self._saying.join(_SAY_PATIENCE_S)

    def start(self, command: list[str]) -> int:
        """Run the command in a session of its own. Returns 0, the errno of why it could not be started, or ``_LATE``."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # What ``lock`` itself ignored (``nohup``) stays ignored here and in the command.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._asked_to_end)
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        error_read, error_write = os.pipe()
        own = os.getpid()
        # On a busy machine the deadline of the arguments may be an old one by now.
        self._listen(0.0)
        if self.control is None or self._time_is_over():
            return _LATE
        self.pid = os.fork()
        if self.pid == 0:
            self._become(command, own, error_write)
        os.close(error_write)
        problem = b""
        # A program that comes from a slow disk takes its time to start: when that is over, it is ended like one that runs.
        while not self._time_is_over():
            if select.select([error_read], [], [], _LONGEST_NAP_S)[0]:
                break
        # It may have slept together with its child, which has said meanwhile why it did not start.
        if select.select([error_read], [], [], 0)[0]:
            problem = os.read(error_read, 16)
        os.close(error_read)
        for early in self._early:
            self._send(early)
        return int(problem) if problem else 0

    def _time_is_over(self) -> bool:
        return clock() >= self.deadline - self.term_lead

    def _asked_to_end(self, number: int, _frame: object) -> None:
        self.asked = number

    def _become(self, command: list[str], guard: int, error_write: int) -> None:
        """In the child: turn into the command. Does not return."""
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            # Python ignores these two, and what is ignored stays so in a new program.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(127)
            # The last look: the guard may have slept together with this process, and have given it up.
            if self._time_is_over():
                os.write(error_write, str(_LATE).encode())
                os._exit(127)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(error_write, str(error.errno).encode())
        finally:
            os._exit(127)

    def kill(self) -> int:
        """Kill the process group at once, and wait for its end."""
        until: float | None = None
        while True:
            self._send(signal.SIGKILL)
            self._reap()
            now = clock()
            if self.code is not None:
                until = now + _REAP_PATIENCE_S if until is None else until
                if now >= until or not self._group_lives():
                    return self.code
            time.sleep(0.005)

    def watch(self) -> int:
        """Stay until nothing of the process group runs. Returns the command's exit status (128 + n for signal n)."""
        while True:
            self._reap()
            if self.code is not None and not self._group_lives():
                return self.code
            now = clock()
            if self.code is not None and self.ending_at is None:
                # The command has ended, but what it started in its group would go on without a lease.
                self._end(signal.SIGTERM, "leftovers")
            elif self.ending_at is None and self._time_is_over():
                self._end(signal.SIGTERM, "lease")
            elif self.asked and self.ending_at is None:
                self._end(self.asked, "signal")
            if self.ending_at is not None and not self.killed and now >= self._kill_at():
                self.killed = True
                self._send(signal.SIGKILL)
            if self.killed and self.code is not None and now >= self._kill_at() + _REAP_PATIENCE_S:
                # What is left cannot be killed (another user's, or a zombie nobody collects); waiting longer would not help.
                return self.code
            self._sleep(now)

    def _kill_at(self) -> float:
        assert self.ending_at is not None
        return min(self.ending_at + self.grace, self.deadline - self.kill_lead)

    def _sleep(self, now: float) -> None:
        if self.killed or self.code is not None:
            nap = 0.02
        else:
            next_step = self.deadline - self.term_lead if self.ending_at is None else self._kill_at()
            nap = min(max(next_step - now, 0.001), _LONGEST_NAP_S)
        self._listen(nap)

    def _listen(self, nap: float) -> None:
        watched = [self._wake_read] if self.control is None else [self._wake_read, self.control]
        ready, _, _ = select.select(watched, [], [], nap)
        if self._wake_read in ready:
            os.read(self._wake_read, 512)
        if self.control is not None and self.control in ready:
            self._hear(self.control)

    def _hear(self, control: int) -> None:
        data = os.read(control, 4096)
        if not data:
            self.control = None
            if self.code is None and self.ending_at is None:
                self._end(signal.SIGTERM, "orphaned")
                self.say("lock is gone: ending its command")
            return
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            word, _, value = line.partition(b" ")
            if word == b"deadline":
                self.deadline = float(value)
            elif word == b"signal":
                self._send(int(value))
            elif word == b"end":
                self._end(int(value), "signal")

    def _end(self, number: int, why: str) -> None:
        self._send(number)
        # A stopped process hears nothing but KILL until it goes on.
        self._send(signal.SIGCONT)
        if self.ending_at is None:
            self.ending_at = clock()
            self.tell(f"ending {why}")

    def _send(self, number: int) -> None:
        if not self.pid:
            self._early.append(number)
            return
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def _group_lives(self) -> bool:
        # The group's number is not given to another while a member is left, and the first look after the last one says so.
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                code = os.waitstatus_to_exitcode(status)
                self.code = 128 - code if code < 0 else code


def _write_to_stderr(line: bytes) -> None:
    try:
        os.write(2, line)
    except OSError:
        return


def main(argv: list[str]) -> int:
    control, status = int(argv[0]), int(argv[1])
    deadline, term_lead, kill_lead, grace = map(float, argv[2:6])
    guard = Guard(control, status, deadline, term_lead, kill_lead, grace)
    try:
        problem = guard.start(argv[6:])
        if problem:
            guard.tell("late" if problem == _LATE else f"failed {problem}")
            return 1
        guard.tell(f"started {guard.pid}")
        code = guard.watch()
    except BaseException as error:
        if not guard.pid:
            raise
        # A command does not go on without its guard, whatever broke here.
        code = guard.kill()
        guard.say(f"the guard broke and has killed its command: {error!r}")
    guard.tell(f"exited {code}")
    guard.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
