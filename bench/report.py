"""The table that a benchmark run ends with: what was measured, on what, at which commit.

Knows: this machine and the installed versions. Must not know: how anything was measured.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("uvloop", "pysyncobj", "msgpack", "cython")


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + (" with local changes" if git("status", "--porcelain") else "")
    except OSError:
        return "unknown"


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


def surroundings() -> dict[str, str]:
    """Machine, versions and commit, as text."""
    load = os.getloadavg()[0]
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, load {load:.1f}",
        "versions": ", ".join([f"Python {platform.python_version()}", *map(_version, PACKAGES)]),
        "commit": _commit(),
    }


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, the others to the right."""
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    ]
