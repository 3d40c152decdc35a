"""The gate in front of a resource, and the token's way there as headers: A2, A7."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import tenure
from tenure import FencedError, FencingGate, LeaseLostError, UsageError, fencing_headers

pytestmark = pytest.mark.fast


def test_a_smaller_token_is_refused_and_changes_nothing__A2() -> None:
    gate = FencingGate()
    gate.check("stock", 7)
    gate.check("stock", 7)
    gate.check("stock", 9)
    with pytest.raises(FencedError, match=r"'stock' refuses token 8: token 9 was here\. stop this work"):
        gate.check("stock", 8)
    assert gate.largest("stock") == 9
    gate.check("stock", 9)


def test_resources_are_apart__F6() -> None:
    gate = FencingGate()
    gate.check("job", 9)
    gate.check("job/1", 1)
    gate.check("job-1", 1)
    assert (gate.largest("job"), gate.largest("job/1"), gate.largest("other"), len(gate)) == (9, 1, None, 3)


def test_the_lease_of_an_elector_passes_until_its_successor_has_passed__A7() -> None:
    gate = FencingGate()
    with tenure.local() as coordinator:
        first = coordinator.acquire("stock")
        assert first is not None
        gate.check("stock", first.token)
        first.release()
        second = coordinator.acquire("stock")
        assert second is not None
        gate.check("stock", first.token)
        gate.check("stock", second.token)
        with pytest.raises(FencedError):
            gate.check("stock", first.token)
        second.release()


def test_who_guards_keeps_the_next_writer_waiting() -> None:
    gate = FencingGate()
    seen: list[str] = []

    def successor() -> None:
        with gate.guard("stock", 9):
            seen.append("successor")

    thread = threading.Thread(target=successor)
    with gate.guard("stock", 7):
        gate.check("stock", 7)
        gate.check("other", 1)
        thread.start()
        thread.join(0.05)
        assert not seen
        seen.append("first")
    thread.join(10)
    assert seen == ["first", "successor"]
    with pytest.raises(FencedError), gate.guard("stock", 7):
        seen.append("stale")
    assert seen == ["first", "successor"]


def test_a_body_that_raises_leaves_the_gate_open() -> None:
    gate = FencingGate()
    with pytest.raises(RuntimeError, match="disk"), gate.guard("stock", 7):
        raise RuntimeError("disk")
    thread = threading.Thread(target=gate.check, args=("stock", 8))
    thread.start()
    thread.join(10)
    assert gate.largest("stock") == 8


def test_the_largest_of_many_threads_stays__D5() -> None:
    gate = FencingGate()
    written: list[int] = []

    def write(start: int) -> None:
        for token in range(start, 4000, 8):
            try:
                with gate.guard("stock", token):
                    written.append(token)
            except FencedError:
                continue

    threads = [threading.Thread(target=write, args=(start,)) for start in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert written == sorted(written)
    assert gate.largest("stock") == max(written) == 3999


def test_forgetting_while_another_waits_leaves_one_lock() -> None:
    gate = FencingGate()
    inside: list[int] = []
    together: list[int] = []

    def write() -> None:
        with gate.guard("stock", 9):
            inside.append(1)
            together.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=write) for _ in range(4)]
    with gate.guard("stock", 7):
        for thread in threads:
            thread.start()
        gate.forget("stock")
    for thread in threads:
        thread.join(10)
    assert together == [1, 1, 1, 1]
    assert gate.largest("stock") == 9


def test_its_memory_is_bounded_and_it_says_so() -> None:
    gate = FencingGate(resources_max=2)
    gate.check("a", 5)
    gate.check("b", 5)
    with pytest.raises(UsageError, match=r"'c' is one resource more than the 2 .*forget"):
        gate.check("c", 6)
    with pytest.raises(FencedError):
        gate.check("a", 4)
    gate.forget("b")
    gate.check("c", 6)
    assert len(gate) == 2


@pytest.mark.parametrize("token", [0, -1, True, 1.0, "7", None, 1 << 53])
def test_what_is_no_token_is_refused(token: Any) -> None:
    gate = FencingGate()
    with pytest.raises(UsageError, match="is no fencing token"):
        gate.check("stock", token)
    assert len(gate) == 0


def test_other_bad_arguments_are_refused() -> None:
    for resource in ("", None, b"stock"):
        with pytest.raises(UsageError, match="resource"):
            FencingGate().check(resource, 1)  # type: ignore[arg-type]
    for limit in (0, -1, True, 1.5):
        with pytest.raises(UsageError, match="resources_max"):
            FencingGate(resources_max=limit)  # type: ignore[arg-type]
    FencingGate(resources_max=1).check("stock", (1 << 53) - 1)


def test_headers_carry_the_token_while_the_lease_lives() -> None:
    with tenure.local() as coordinator:
        lease = coordinator.acquire("tenant:acme:stock", max_leaders=2)
        assert lease is not None
        assert fencing_headers(lease) == {
            "Tenure-Name": "tenant:acme:stock",
            "Tenure-Slot": "0",
            "Tenure-Token": str(lease.token),
        }
        lease.release()
        with pytest.raises(LeaseLostError, match="released"):
            fencing_headers(lease)


def test_headers_of_an_asyncio_lease() -> None:
    async def run() -> dict[str, str]:
        async with tenure.local() as coordinator:
            lease = await coordinator.aio.acquire("stock")
            assert lease is not None
            async with lease:
                return fencing_headers(lease)

    assert asyncio.run(run())["Tenure-Name"] == "stock"
