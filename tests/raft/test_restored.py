"""Nodes that begin with a state from before: they form a group with each other, all of them, and with nobody else (E15)."""

from __future__ import annotations

import itertools
import logging
from typing import cast

import pytest

from cluster.codec import pack
from cluster.errors import UsageError
from cluster.ports import Env
from cluster.raft import snapshot
from cluster.raft.restored import is_untouched
from cluster.storage.meta import State
from cluster.storage.offline import begin_directory
from tests.raft.lab import World
from tests.raft.labenv import LabEnv
from tests.storage.simdisk import SimDisk

pytestmark = pytest.mark.fast

INDEX, TERM = 40, 7
ID = b"a restored group"


def begin(w: World, name: str, *, cluster_id: bytes = ID, members: str = "ABC") -> None:
    """Give a node a directory as ``snapshot restore`` makes it, and start it."""
    state = State(term=TERM, incarnation=w.rng.randbytes(16), cluster_id=cluster_id, formed=dict.fromkeys(members, b""))
    data = snapshot.encode(INDEX, TERM, list(members), pack([b"old"]))
    env = LabEnv(w, w[name].drive, 1)
    begin_directory(cast(Env, env), "data", state, (INDEX, TERM, data))
    w[name].boot()


def world(restored: str, blank: str = "") -> World:
    w = World("ABC", connect=False)
    for name in restored:
        begin(w, name)
    for name in blank:
        w[name].boot()
    return w


def linked(w: World, names: str = "ABC") -> World:
    for a, b in itertools.combinations(names, 2):
        w.link(a, b)
    return w


def joined(w: World) -> str:
    return "".join(name for name in w.names if w[name].storage.meta.joined)


def test_they_form_when_all_are_there_and_go_on_from_the_state__E15() -> None:
    w = world("ABC")
    w.link("A", "B")
    w.link("B", "C")
    assert joined(w) == "B"
    w.link("A", "C")
    assert joined(w) == "ABC"
    w.form("B")
    assert w["B"].raft.term > TERM
    w.propose("B", "new")
    w.beat("B", "AC")
    assert not w.ledger.violations
    assert [w[name].machine.commands for name in "ABC"] == [[b"old", b"new"]] * 3


def test_one_of_them_restarts_before_and_after_the_group_has_formed() -> None:
    w = world("ABC")
    w.link("A", "B")
    w.kill("B")
    w.restart("B", "A")
    w.link("A", "C")
    w.kill("C")
    w.restart("C", "AB")
    assert joined(w) == "ABC"
    w.form("C")


@pytest.mark.parametrize("restored", ["A", "AB"])
def test_a_node_with_nothing_is_none_of_them__E15(restored: str, caplog: pytest.LogCaptureFixture) -> None:
    """Else the nodes without the state could be the majority, and the backup would be gone."""
    with caplog.at_level(logging.WARNING):
        w = linked(world(restored, "ABC".replace(restored, "")))
    assert joined(w) == ""
    assert any("raft.beginnings_differ node=C peer=A" in record.getMessage() for record in caplog.records)


def test_nodes_of_two_backups_form_no_group() -> None:
    w = world("AB")
    begin(w, "C", cluster_id=b"of another state")
    assert joined(linked(w)) == ""


def test_one_that_has_voted_since_is_no_beginner() -> None:
    w = world("ABC")
    storage = w["C"].storage
    assert is_untouched(storage.meta, storage.journal)
    storage.meta.save(voted_for="A")
    assert not is_untouched(storage.meta, storage.journal)
    assert not w["C"].hello().info["blank"]
    storage.meta.save(voted_for=None, term=TERM + 1)
    assert not is_untouched(storage.meta, storage.journal)


def test_a_node_that_is_wiped_afterwards_gets_the_state_from_the_others() -> None:
    w = linked(world("ABC"))
    w.form("A")
    w.kill("C")
    w.wipe("C")
    w.restart("C", "AB")
    for _ in range(8):
        w.beat("A", "BC")
    assert "C" in joined(w)
    assert w["C"].storage.snapshots.index >= INDEX


def test_a_group_of_one_begins_at_once() -> None:
    w = World("A", connect=False, single=True)
    begin(w, "A", members="A")
    w.tick("A", 0.001)
    assert w["A"].raft.is_leader
    assert w["A"].raft.term > TERM


def test_told_of_other_members_than_it_was_restored_for_it_does_not_start() -> None:
    w = World("ABC", connect=False)
    with pytest.raises(UsageError, match=r"restored for a raft group of A, B, and the node was told of A, B, C"):
        begin(w, "A", members="AB")


def test_a_directory_in_use_is_not_begun() -> None:
    w = world("", "ABC")
    assert isinstance(w["A"].drive, SimDisk)
    w.kill("A")
    with pytest.raises(UsageError, match="is not empty"):
        begin(w, "A")
