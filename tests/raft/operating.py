"""An operator of a raft group on the table: asks for changes of its members, and lets them happen message by message.

Knows: requests, their answers, the table. Must not know: which schedule is played.
"""

from __future__ import annotations

from typing import Any

from cluster.ports import ChangeOutcome
from cluster.raft.adapter import Adapter
from tests.raft.lab import World


class Asked(list[ChangeOutcome]):
    """The answers to a request, which come once."""

    @property
    def kind(self) -> str:
        assert len(self) <= 1
        return self[0].kind if self else "open"


def change(w: World, leader: str, verb: str, name: str, request: bytes = b"") -> Asked:
    asked = Asked()
    w[leader].raft.change_members(verb == "add", name, request or f"{verb} {name}".encode(), asked.append)
    w[leader].env.run_soon()
    return asked


def members(w: World, name: str) -> str:
    return "".join(w[name].adapter._members)


def ready(w: World, leader: str, name: str, told: str, voters: str) -> Asked:
    """Ask for an addition, and let the newcomer catch up, but for the change itself."""
    if name not in w.nodes:
        w.newcomer(name, told)
    asked = change(w, leader, "add", name)
    assert w.let_in(leader, name)
    w.link(leader, name)
    for _ in range(30):
        w.tick(leader)
        for other in (*voters, name):
            if w[leader].adapter._lists[-1].change == f"add {name}".encode():
                return asked
            w.flow(leader, other)
            w.work(other)
            w.flow(other, leader)
    raise AssertionError(f"{name} has not caught up: {w[leader].raft.status()}")


def grown(names: str = "ABC", adapter: type[Adapter] = Adapter, **config: Any) -> World:
    w = World(names, adapter, **config)
    w.form("A")
    w.propose("A", "x0")
    w.beat("A", [name for name in names if name != "A"])
    return w


def exchange(w: World, leader: str, others: str, rounds: int = 6) -> None:
    """Signs of life and what they lead to, between these only."""
    for _ in range(rounds):
        w.tick(leader, 0.04)
        for other in others:
            w.flow(leader, other)
            w.work(other)
            w.flow(other, leader)
