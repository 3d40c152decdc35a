"""Compiles the load generator into ``build/bench/``, which is never committed, and runs it.

Knows: the C compiler and the generator's command line. Must not know: what is measured with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")
RUN_WITHIN_S = 120.0


class NoLoadGenerator(RuntimeError):
    """This machine cannot build or run it; the message says why."""


def compiler() -> str:
    """The C compiler: ``$CC``, or the first of cc, gcc and clang that is there."""
    named = os.environ.get("CC")
    for name in (named,) if named else ("cc", "gcc", "clang"):
        if name and shutil.which(name):
            return name
    raise NoLoadGenerator(f"no C compiler: {named or 'cc, gcc or clang'} was not found")


def load_generator() -> Path:
    """Path of the compiled load generator, built anew when a source or the compiler changed.

    Raises:
        NoLoadGenerator: not on Linux, no compiler, or it does not compile.
    """
    if sys.platform != "linux":
        raise NoLoadGenerator("the load generator uses epoll, which only Linux has")
    cc = compiler()
    sources = sorted([*HERE.glob("loadgen*.c"), *HERE.glob("loadgen*.h")])
    content = b"".join(path.read_bytes() for path in sources)
    key = hashlib.sha256(content + cc.encode() + " ".join(FLAGS).encode()).hexdigest()[:16]
    target = ROOT / "build" / "bench" / f"loadgen-{key}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [cc, *FLAGS, str(HERE / "loadgen.c"), "-o", str(partial)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NoLoadGenerator(f"{cc} failed:\n{done.stderr}")
    partial.replace(target)
    return target


@dataclass(frozen=True, slots=True)
class Phase:
    """What one phase of a run measured. Latencies in microseconds; ``client_cpu`` is the generator's own share of a core."""

    kind: str
    connections: int
    in_flight: int
    seconds: float
    ops: int
    ops_per_s: float
    p50_us: float
    p99_us: float
    max_us: float
    client_cpu: float
    held: int
    pushes: int


def run_load(
    address: str,
    connections: int,
    in_flight: int,
    phases: Sequence[tuple[str, int]],
    *,
    warmup_ms: int = 200,
    options: Sequence[str] = (),
) -> list[Phase]:
    """Run the load generator against a raft leader or an echo server.

    Args:
        phases: (kind, milliseconds) each; see ``loadgen.c``.

    Raises:
        RuntimeError: a reply was not a success, or the connection broke; with what the generator said.
    """
    command = [str(load_generator()), "--connect", address, "--connections", str(connections)]
    command += ["--in-flight", str(in_flight), "--warmup-ms", str(warmup_ms), *options]
    for kind, duration_ms in phases:
        command += ["--phase", f"{kind}:{duration_ms}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_WITHIN_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{connections}x{in_flight} at {address}: {done.stderr.strip()}")
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return [Phase(**result) for result in results]


if __name__ == "__main__":
    sys.stdout.write(f"{load_generator()}\n")
