"""Fork, and the end of the interpreter (D2, D3).

Knows: small programs and what they must print. Must not know: how the client notices.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time

import pytest

from tests.house import ROOT

pytestmark = pytest.mark.core

HEAD = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import tenure
from cluster.errors import LeaseLostError, UsageError
from tests.support import eventually
"""


def run(program: str, *, within_s: float = 10.0) -> tuple[int, str, str, float]:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr, time.monotonic() - started


def test_a_forked_child_is_refused_and_its_parent_unharmed__D2() -> None:
    status, out, err, _ = run(
        """
        coordinator = tenure.local()
        lease = coordinator.acquire("job", lease_time=30)
        pid = os.fork()
        if pid == 0:
            calls = (lambda: coordinator.acquire("x"), lambda: coordinator.state("job"), lease.release, lease.extend,
                     coordinator.close, coordinator.__enter__, coordinator.leases)
            for call in calls:
                try:
                    call()
                except UsageError as error:
                    print("child", "fork" in str(error))
            try:
                lease.check()
            except LeaseLostError as error:
                print("child", "fork" in str(error), lease.confidence, lease.remaining(), lease.lost.is_set())
            try:
                with lease:
                    print("entered")
            except LeaseLostError:
                print("child not entered")
            # The ordinary end of an interpreter, atexit and all.
            sys.exit(7)
        _, status = os.waitpid(pid, 0)
        print("parent", os.waitstatus_to_exitcode(status), lease.confidence, coordinator.acquire("job"), lease.release())
        coordinator.close()
        """
    )
    assert status == 0
    assert "Traceback" not in err
    assert out.split("\n") == ["child True"] * 7 + [
        "child True lost 0.0 True",
        "child not entered",
        "parent 7 held None True",
        "",
    ]


@pytest.mark.parametrize(
    "ending",
    ["", "coordinator.close(limit=0.1)", "sys.exit(0)", "del coordinator, lease", "coordinator.close(limit=0)"],
)
def test_the_interpreter_ends_without_hanging__D3(ending: str) -> None:
    status, _, err, took = run(
        f"""
        coordinator = tenure.local()
        lease = coordinator.acquire("job", lease_time=30, auto_extend=True)
        assert lease.release()
        lease = coordinator.acquire("other", lease_time=30)
        {ending}
        """
    )
    assert status == 0
    assert "Traceback" not in err
    assert took < 8


def test_what_was_released_is_free_before_the_end_and_what_is_held_is_left_alone__D3() -> None:
    status, out, err, _ = run(
        """
        import atexit
        coordinator = tenure.local()
        node = coordinator._port.engine.link._door.node
        held = coordinator.acquire("held", lease_time=30)
        let_go = coordinator.acquire("let_go", lease_time=30)
        rows = lambda name: len(node.server.table.rows(name, node.server.table.time_ms))
        import cluster.client.host as host
        # Handlers run in the reverse order: look after the client's own.
        atexit.unregister(host._leave_all)
        atexit.register(lambda: print(rows(b"held"), rows(b"let_go")))
        atexit.register(host._leave_all)
        let_go.release_soon()
        """
    )
    assert (status, out) == (0, "1 0\n")
    assert err.startswith("client.closed_with_leases count=1")


def test_a_daemon_thread_that_waits_does_not_keep_the_interpreter__D3() -> None:
    status, _, err, took = run(
        """
        coordinator = tenure.local()
        lease = coordinator.acquire("job", lease_time=60)
        for work in (lambda: coordinator.acquire("job", wait_time=60), lambda: lease.lost.wait()):
            threading.Thread(target=work, daemon=True).start()
        eventually(lambda: coordinator.state("job").waiters)
        """
    )
    assert status == 0
    assert "Traceback" not in err or "closed" in err
    assert took < 5


def test_a_keyboard_interrupt_ends_a_program_that_waits__D1() -> None:
    status, out, err, took = run(
        """
        import signal
        coordinator = tenure.local()
        lease = coordinator.acquire("job", lease_time=60)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            with lease:
                coordinator.acquire("job", wait_time=60)
        except KeyboardInterrupt:
            print("interrupted", coordinator.state("job").leader)
        """
    )
    assert (status, out, err) == (0, "interrupted None\n", "")
    assert took < 5
