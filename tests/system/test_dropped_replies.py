"""Replies vanish for a second: nobody is blocked until a lease expires, no two hold at once.

Knows: proxies, the public interface. Must not know: the product's inside.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import tenure
from cluster.cli.runs import Run, judge
from cluster.env import boot_clock
from tests.support import eventually
from tests.support_cluster import NodeProcess, free_ports
from tests.system.support_proxy import Proxy, proxies
from tests.system.support_workers import pretend_to_work

LEASE_S = 30.0
DROPPED_S = 1.0
# A lost reply costs a retry. It must never cost what is left of a lease.
RESUMES_WITHIN_S = 8.0
WORKERS = 4


@contextmanager
def nodes_behind_proxies(directory: Path) -> Iterator[tuple[str, list[Proxy]]]:
    """Three nodes that the others and the clients know by their proxies' addresses only."""
    ports = free_ports(6)
    shown = [f"127.0.0.1:{port}" for port in ports[:3]]
    nodes = [
        NodeProcess(f"127.0.0.1:{port}", shown, directory, ["--advertise", address, "--durability", "process"])
        for port, address in zip(ports[3:], shown, strict=True)
    ]
    with ExitStack() as stack:
        made = stack.enter_context(proxies(list(zip(ports[:3], ports[3:], strict=True))))
        for node in nodes:
            stack.callback(node.kill)
            node.start()

        def serves() -> bool:
            statuses = [node.status() for node in nodes]
            return any(status is not None and status.has_quorum and status.leader for status in statuses)

        eventually(serves, 20.0, "a raft leader behind the proxies\n" + "\n".join(node.log() for node in nodes))
        yield ",".join(shown), made


@pytest.mark.timeout(120)
def test_replies_dropped_for_a_second__I1_I5(tmp_path: Path) -> None:
    runs: list[list[Run]] = [[] for _ in range(WORKERS)]
    unknown: list[BaseException] = []
    stop = threading.Event()

    def work(number: int, coordinator: tenure.Coordinator) -> None:
        while not stop.is_set():
            try:
                lease = coordinator.acquire("job", lease_time=LEASE_S, wait_time=2.0)
                if lease is None:
                    continue
                with lease:
                    start = boot_clock()
                    pretend_to_work(0.005)
                    runs[number].append(Run(number, lease.token, start, boot_clock()))
            except (tenure.Unavailable, tenure.Indeterminate):
                continue
            except BaseException as error:
                unknown.append(error)
                return

    with nodes_behind_proxies(tmp_path) as (endpoints, made), ExitStack() as stack:
        threads = [
            threading.Thread(target=work, args=(number, stack.enter_context(tenure.connect(endpoints))))
            for number in range(WORKERS)
        ]
        for thread in threads:
            thread.start()
        try:
            eventually(lambda: all(len(mine) > 5 for mine in runs) or unknown, 20.0, "everyone works")
            for proxy in made:
                proxy.dropping = True
            dropped_until = boot_clock() + DROPPED_S
            eventually(lambda: boot_clock() >= dropped_until, DROPPED_S + 1)
            for proxy in made:
                proxy.dropping = False
            resumed = boot_clock()
            eventually(
                lambda: all(mine[-1].start > resumed for mine in runs) or unknown,
                RESUMES_WITHIN_S,
                "everyone works again",
            )
        finally:
            stop.set()
            for thread in threads:
                thread.join(30)
        assert not unknown
        assert not any(thread.is_alive() for thread in threads)
        assert sum(proxy.dropped for proxy in made) > 0, "the proxy did drop replies"
    verdict = judge(run for mine in runs for run in mine)
    assert verdict.good, verdict
