"""Which faults came when something was at stake.

Knows: kinds of faults, in which states they matter. Must not know: how a fault is made, what is checked.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.sim.registry import FAULTS

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World

ON_NODES = (
    "crash", "power cut", "pause", "isolate", "one way in", "one way out", "slow node", "disk stall", "disk full", "disk error", "wipe",
)  # fmt: skip
"""Each should have met a leader and a follower while somebody held a lease."""
ELSEWHERE = (
    "crash everywhere", "power cut everywhere", "pause worker", "cut worker", "reset", "lose", "slow link", "drift", "wall clock step",
    "overload", "handover", "calm pause", "calm isolation", "ran ahead",
)  # fmt: skip


def state_of(world: World, node: SimNode | None) -> str:
    """What a fault meets: whom it hits, and what is going on."""
    leader = world.leader()
    words = []
    if node is not None:
        if not node.up:
            words.append("down")
        elif not node.member:
            words.append("joining")
        else:
            words.append("leader" if node is leader else "follower")
    if leader is None:
        words.append("election")
    elif any(peer.transfer is not None for peer in leader.adapter._others):
        words.append("transfer")
    if any(worker.holds for worker in world.workers):
        words.append("held")
    return " ".join(words)


def not_covered(counts: Counter[str]) -> list[str]:
    """What never came with a lease at stake."""
    fired = {key.removeprefix("fault ") for key in counts if key.startswith("fault ")}

    def met(kind: str, *words: str) -> bool:
        return any(
            key.startswith(kind + ":") and all(word in key.partition(":")[2].split() for word in words) for key in fired
        )

    on_nodes = [name for fault in FAULTS for name in fault.on_nodes]
    others = [name for fault in FAULTS for name in fault.names if name not in fault.on_nodes]
    missing = [
        f"{kind} of a {role}"
        for kind in (*ON_NODES, *on_nodes)
        for role in ("leader", "follower")
        if not met(kind, role, "held")
    ]
    missing += [kind for kind in (*ELSEWHERE, *others) if not met(kind, "held")]
    for kind in ("crash", "pause", "isolate"):
        missing += [f"{kind} during {state}" for state in ("election", "transfer", "joining") if not met(kind, state)]
    return missing


_COLUMNS = ("leader", "follower", "joining", "down", "election", "transfer", "held")


def table(counts: Counter[str]) -> str:
    """Every kind of fault, how often it came, how often with which word of ``state_of``; then all else that was counted."""
    kinds: dict[str, Counter[str]] = {name: Counter() for name in _all_kinds()}
    for key, number in counts.items():
        if key.startswith("fault "):
            kind, _, state = key.removeprefix("fault ").partition(": ")
            kinds.setdefault(kind, Counter()).update(dict.fromkeys(["all", *state.split()], number))
    lines = [f"{'fault':28}" + "".join(f"{column:>10}" for column in ("all", *_COLUMNS))]
    for kind, met in sorted(kinds.items()):
        lines.append(f"{kind:28}" + "".join(f"{met[column]:10}" for column in ("all", *_COLUMNS)))
    lines += [f"{number:8} {what}" for what, number in sorted(counts.items()) if not what.startswith("fault ")]
    return "\n".join(lines) + "\n"


def _all_kinds() -> list[str]:
    return [*ON_NODES, *ELSEWHERE, *(name for fault in FAULTS for name in fault.names)]
