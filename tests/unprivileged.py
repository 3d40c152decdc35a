"""What a user may not do, also where the tests run as the superuser.

Knows: how a process gives up its rights. Must not know: what is tried without them.

The work is a program of its own. It imports, and does once what it is about to do, before it calls ``become_anybody``: afterwards it may
not even read the interpreter's files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOBODY = 65534
CANNOT = 77
ROOT = Path(__file__).resolve().parent.parent


def become_anybody() -> int:
    """Give up the superuser's rights, if this process has them, for good. Returns the user that it is then."""
    if os.geteuid() == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        except OSError:
            sys.exit(CANNOT)
    return os.geteuid()


def run_as_anybody(program: str, *arguments: str) -> str:
    """What the program prints. Skips the test where no other user can be had, or where the program exits with CANNOT."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == CANNOT:
        pytest.skip("the superuser cannot become another user here, or that user has no directory")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
