"""Runs the command line as a user does: in a process of its own, in another directory.

Knows: processes. Must not know: the commands.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def environ(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without anything meant for ``tenure``, and with this checkout on the path."""
    found = {key: value for key, value in os.environ.items() if not key.startswith("TENURE_")}
    found["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return {**found, **(extra or {})}


def tenure(
    arguments: Sequence[str],
    cwd: Path,
    *,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
    module: str = "cluster",
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m cluster ARGUMENTS`` to its end."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env=environ(env),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def start(
    arguments: Sequence[str], cwd: Path, *, env: Mapping[str, str] | None = None, stderr: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start ``python -m cluster ARGUMENTS``; its output comes through pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "cluster", *arguments],
        cwd=cwd,
        env=environ(env),
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def fill(pipe: int) -> None:
    """Until one more byte would block."""
    os.set_blocking(pipe, False)
    for size in (65536, 4096, 1):
        while True:
            try:
                os.write(pipe, bytes(size))
            except BlockingIOError:
                break
    os.set_blocking(pipe, True)


def is_one_line(text: str) -> bool:
    """Whether a complaint is one line that begins with the program's name."""
    return text.startswith("tenure: ") and text.endswith("\n") and text.count("\n") == 1 and "Traceback" not in text
