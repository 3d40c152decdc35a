"""The lease table by itself: batches in, replies out, on one core; beside the reference model in the same run.

Knows: the batch format and both tables' ``apply``. Must not know: sockets, logs, nodes.

Every round is OPERATIONS operations, in batches of one or in one batch, on a table that holds STANDING other leases before and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.report import columns
from cluster._table import LeaseTable
from tests.table.model import Model
from tests.table.packing import HEADER, decode_all, pack

OPERATIONS = 1024
STANDING = 1024
MANY = 1_000_000
LEASE_MS = 60_000
ROUNDS = {"table": 100, "model": 3}
SETUP_BATCH = 10_000


class Table(Protocol):
    def apply(self, batch: bytes) -> tuple[bytes, bytes]: ...


IMPLEMENTATIONS: dict[str, Callable[[], Table]] = {"table": LeaseTable, "model": Model}


def acq_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def name(number: int) -> bytes:
    return b"bench/standing/%09x" % number


@dataclass
class Bench:
    """A table with standing leases; ``prepare`` makes ready-made batches, whose stamps go on from round to round."""

    table: Table
    batch_size: int
    stamp_ms: int = 1

    def batches(self, operations: list[bytes], size: int) -> list[bytes]:
        self.stamp_ms += 1
        pieces = [operations[i : i + size] for i in range(0, len(operations), size)]
        return [HEADER.pack(1, 0, 0, len(piece), 1, self.stamp_ms) + b"".join(piece) for piece in pieces]

    def run(self, batches: list[bytes]) -> list[bytes]:
        apply = self.table.apply
        return [apply(batch)[0] for batch in batches]

    def prepare(self, operations: list[bytes]) -> list[bytes]:
        return self.batches(operations, self.batch_size)

    def set_up(self, operations: list[bytes]) -> list[list[int]]:
        """Apply operations outside of the measurement, and read their answers."""
        answers = [a for replies in self.run(self.batches(operations, SETUP_BATCH)) for a in decode_all(replies)]
        assert all(answer[0] == 0 for answer in answers)
        return answers


GRANTS = [
    pack([1, acq_id(i), b"bench/measured/%09x" % i, LEASE_MS, 1, 0, 0, b"host:12345", b""]) for i in range(OPERATIONS)
]
ABANDONS = [pack([6, acq_id(i), b"bench/measured/%09x" % i]) for i in range(OPERATIONS)]


def with_tokens(tokens: list[int], code: int, last: int) -> list[bytes]:
    """Operations of the measured leases that name their tokens: EXTEND (3) and RELEASE (5)."""
    return [pack([code, acq_id(i), b"bench/measured/%09x" % i, token, last]) for i, token in enumerate(tokens)]


def new_bench(implementation: str, batch_size: int, standing: int = STANDING) -> Bench:
    bench = Bench(IMPLEMENTATIONS[implementation](), batch_size)
    bench.table.apply(HEADER.pack(1, 0, 0, 1, 1, 0) + pack([8]))
    first = 1 << 40
    step = 100_000
    for begin in range(first, first + standing, step):
        numbers = range(begin, min(begin + step, first + standing))
        bench.set_up([pack([1, acq_id(i), name(i), 7 * 86_400_000, 1, 0, 0, b"host:1", b""]) for i in numbers])
    return bench


def measure(benchmark: BenchmarkFixture, bench: Bench, ready: Callable[[], list[bytes]], rounds: int) -> None:
    """Time ``apply`` over the batches that ``ready`` makes for each round."""
    fixture: Any = benchmark
    fixture.pedantic(bench.run, setup=lambda: ((ready(),), {}), rounds=rounds, warmup_rounds=rounds // 10)
    if benchmark.stats is not None:
        per_operation_ns = benchmark.stats.stats.median / OPERATIONS * 1e9
        benchmark.extra_info.update(operations_per_round=OPERATIONS, ns_per_operation=per_operation_ns)


def grants(bench: Bench) -> list[bytes]:
    bench.set_up(ABANDONS)
    return bench.prepare(GRANTS)


def renewals(bench: Bench) -> list[bytes]:
    # The same id asking again gets the same lease, so this also works from the second round on.
    return bench.prepare(with_tokens([answer[1] for answer in bench.set_up(GRANTS)], 3, LEASE_MS))


def releases(bench: Bench) -> list[bytes]:
    return bench.prepare(with_tokens([answer[1] for answer in bench.set_up(GRANTS)], 5, 1))


@pytest.fixture(scope="module")
def results(show: Callable[[str, list[str]], None]) -> Iterator[dict[tuple[str, int, str], float]]:
    found: dict[tuple[str, int, str], float] = {}
    yield found
    rows = []
    for (what, size, implementation), ns in found.items():
        model_ns = found.get((what, size, "model"))
        faster = f"{model_ns / ns:,.0f}x" if model_ns and implementation != "model" else ""
        rows.append([f"{what}, batches of {size:,}, {implementation}", f"{ns:,.0f}", f"{1e3 / ns:.2f}", faster])
    show(f"the table alone, {STANDING:,} other leases held", columns(("", "ns/op", "M op/s", "model / table"), rows))


implementations = pytest.mark.parametrize("implementation", ["table", "model"])
batch_sizes = pytest.mark.parametrize("batch_size", [1, 1024])
Results = dict[tuple[str, int, str], float]


@implementations
@batch_sizes
@pytest.mark.benchmark(group="table")
def test_grant(benchmark: BenchmarkFixture, results: Results, batch_size: int, implementation: str) -> None:
    bench = new_bench(implementation, batch_size)
    measure(benchmark, bench, lambda: grants(bench), ROUNDS[implementation])
    results["grant", batch_size, implementation] = benchmark.extra_info["ns_per_operation"]


@implementations
@batch_sizes
@pytest.mark.benchmark(group="table")
def test_renew(benchmark: BenchmarkFixture, results: Results, batch_size: int, implementation: str) -> None:
    bench = new_bench(implementation, batch_size)
    measure(benchmark, bench, lambda: renewals(bench), ROUNDS[implementation])
    results["renew", batch_size, implementation] = benchmark.extra_info["ns_per_operation"]


@implementations
@batch_sizes
@pytest.mark.benchmark(group="table")
def test_release(benchmark: BenchmarkFixture, results: Results, batch_size: int, implementation: str) -> None:
    bench = new_bench(implementation, batch_size)
    measure(benchmark, bench, lambda: releases(bench), ROUNDS[implementation])
    results["release", batch_size, implementation] = benchmark.extra_info["ns_per_operation"]


@pytest.mark.parametrize("what", [grants, renewals, releases], ids=["grant", "renew", "release"])
@pytest.mark.benchmark(group="table")
def test_among_a_million_leases(
    benchmark: BenchmarkFixture, results: Results, what: Callable[[Bench], list[bytes]]
) -> None:
    bench = new_bench("table", 1024, MANY)
    measure(benchmark, bench, lambda: what(bench), ROUNDS["table"])
    results[f"{what.__name__} among {MANY:,} leases", 1024, "table"] = benchmark.extra_info["ns_per_operation"]
