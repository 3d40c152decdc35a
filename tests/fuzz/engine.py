"""A small fuzzer that is guided by coverage: mutate what is kept, keep what shows something new.

Knows: bytes, lines that a reader in Python reached, what it answered. Must not know: formats; a target knows how to mend a checksum.

Readers in Python are watched line by line. Compiled ones show only what they answer, so the shape of the answer counts as well.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

# Bytes that mean something in msgpack, at limits, or in length fields.
TELLING: Final = bytes((0, 1, 0x7F, 0x80, 0x81, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC4, 0xC6, 0xCF, 0xD3, 0xD4, 0xDC, 0xDD, 0xDF, 0xFF))
KEPT_MAX: Final = 2_000
SIZE_MAX: Final = 1 << 16


@dataclass(frozen=True)
class Target:
    """One reader.

    Attributes:
        name: as the command line says it.
        seeds: real inputs.
        read: gives bytes to the reader; returns what may count as a new kind of answer. Whatever the reader may raise for bad input is
            such an answer too; anything else that it raises is a find.
        mend: makes checksums right again, so that what lies behind them is reached; None: there are none.
        watched: modules whose lines count.
    """

    name: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[bytes], object]
    mend: Callable[[bytes], bytes] | None = None
    watched: tuple[str, ...] = ()


class Found(AssertionError):
    """A reader did what it must not. The message has the input, and how to repeat it."""


@dataclass
class Report:
    runs: int = 0
    kept: int = 0
    features: int = 0


def mutated(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        at = rng.randrange(len(changed) + 1)
        size = rng.choice((1, 1, 2, 4, 8, 40))
        how = rng.randrange(7)
        if how == 0 and changed:
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
        elif how == 1:
            changed[at : at + 1] = bytes([rng.choice(TELLING)])
        elif how == 2:
            del changed[at : at + size]
        elif how == 3:
            changed[at:at] = rng.randbytes(size)
        elif how == 4:
            value = rng.choice((0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, rng.randrange(1 << 32)))
            changed[at : at + 4] = value.to_bytes(4, rng.choice(("big", "little")))
        elif how == 5:
            changed[at:at] = changed[at : at + size] * rng.choice((1, 2, 30))
        else:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            changed[at : at + size] = other[start : start + rng.choice((size, 4 * size))]
    return bytes(changed[:SIZE_MAX])


@contextmanager
def lines_of(modules: tuple[str, ...], reached: set[object]) -> Iterator[None]:
    """Note each (file, line) of these modules that is reached meanwhile."""
    files = {sys.modules[module].__file__ for module in modules}

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        reached.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def features_of(target: Target, data: bytes, how: str) -> set[object]:
    """What one input shows. Raises Found."""
    reached: set[object] = set()
    try:
        with lines_of(target.watched, reached):
            answer = target.read(data)
    except Exception as error:
        raise Found(f"{target.name}: {error!r} for {data.hex()}; repeat with: {how}") from error
    reached.add(answer)
    return reached


def fuzz(target: Target, seed: int, enough: Callable[[int], bool]) -> Report:
    """Run until ``enough(runs)``. Raises Found at the first find."""
    rng = random.Random(f"{target.name} {seed}")
    how = f"python -m tests.fuzz --seed {seed} {target.name}"
    kept, known, report = list(target.seeds()), set[object](), Report()
    for data in kept:
        known |= features_of(target, data, how)
    while not enough(report.runs):
        data = mutated(rng.choice(kept), rng, kept)
        if target.mend is not None and rng.random() < 0.7:
            data = target.mend(data)
        found = features_of(target, data, how)
        report.runs += 1
        if not found <= known and len(kept) < KEPT_MAX:
            known |= found
            kept.append(data)
    report.kept, report.features = len(kept), len(known)
    return report
