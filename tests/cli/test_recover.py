"""``recover`` on files: what it says, what it refuses, what it leaves behind; and what nobody begins with after it was interrupted."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import pytest

import tenure
from cluster import recovery
from cluster._table import LeaseTable
from cluster.backup import Beginning
from cluster.cli.main import run
from cluster.codec import pack
from cluster.directories import refuse_fixed
from cluster.env import RealDisk, RealEnv
from cluster.errors import CoordinationError, UsageError
from cluster.ports import Env
from cluster.raft.listing import members_entry
from cluster.raft.snapshot import encode as encode_snapshot
from cluster.server.batcher import batch_of
from cluster.storage import open_storage
from cluster.storage.snapshots import slices
from tests.cli.support_backup import GROUP, MEMBERS
from tests.cli.support_cli import is_one_line
from tests.support_cluster import free_ports

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("own_logging")]


def survivor(env: RealEnv, directory: Path) -> None:
    """What a node of a group leaves behind: two batches in its log, one of which may not have been acknowledged."""
    storage = open_storage(env, str(directory), "process")
    storage.meta.save(term=3, joined=True, formed=dict.fromkeys(MEMBERS, b"i" * 16))
    journal = storage.journal
    journal.add(b"\0", 1, 0)
    journal.add(batch_of(pack([8]), 3, 0), 2, 3)
    journal.add(members_entry((*MEMBERS, "127.0.0.1:7104")), 3, 3)
    journal.add(batch_of(pack([1, b"a" * 16, b"job", 8_000, 1, 0, 0, b"host:1", b""]), 3, 20), 4, 3)
    storage.close()


def test_recover_says_first_and_acts_only_when_told(
    tmp_path: Path, env: RealEnv, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "data"
    survivor(env, directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    call = ["recover", "--listen", MEMBERS[0], "--single", "--data-dir", "data"]
    assert run(call, prog="tenure") == 0
    said = capsys.readouterr().out
    assert "up to index 4 of term 3" in said
    assert f"in a group of {', '.join(MEMBERS)}, 127.0.0.1:7104" in said, "the members are those that the log names last"
    assert "may be lost" in said
    assert "nothing was changed; repeat it with --yes" in said
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert run([*call, "--yes", "--json"], prog="tenure") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["done"], told["wait"], told["members"]) == (True, 8.0, [MEMBERS[0]])
    kept = tmp_path / "data.before-recover"
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    storage = open_storage(env, str(directory), "process")
    assert (storage.snapshots.index, storage.meta.term, list(storage.meta.formed)) == (4, 3, [MEMBERS[0]])
    storage.close()
    assert run([*call, "--yes"], prog="tenure") == 2
    assert "from an earlier recover" in capsys.readouterr().err


def test_of_a_log_that_a_start_would_replace_nothing_is_recovered__I9(
    tmp_path: Path, env: RealEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot of a later term is durable, and the log that disagrees with it is still there: a deposed leader's entries."""
    directory = tmp_path / "data"
    survivor(env, directory)
    storage = open_storage(env, str(directory), "process")
    storage.meta.save(term=5)
    storage.close()
    disk = RealDisk(str(directory))
    for _ in slices(disk, (2, 5, encode_snapshot(2, 5, MEMBERS, LeaseTable().snapshot()))):
        pass
    disk.close()
    call = ["recover", "--listen", MEMBERS[0], "--single", "--data-dir", str(directory), "--json"]
    assert run(call, prog="tenure") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["found"] == {"index": 2, "last_term": 5, "surely_committed": 2, "members": list(MEMBERS)}
    assert said["wait"] < 8.0, "the lease was of an entry that does not count"


def test_recover_for_several_saves_the_state_for_the_others(
    tmp_path: Path, env: RealEnv, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    survivor(env, tmp_path / "data")
    call = ["recover", *GROUP, "--data-dir", "data", "--yes", "--json"]
    assert run(call, prog="tenure") == 2
    assert "--save is missing" in capsys.readouterr().err
    assert run([*call, "--save", "for-others"], prog="tenure") == 0
    first = json.loads(capsys.readouterr().out)
    other = ["--listen", MEMBERS[1], "--peers", ",".join(MEMBERS), "--data-dir", "second", "--json"]
    assert run(["snapshot", "restore", "for-others", *other], prog="tenure") == 0
    second = json.loads(capsys.readouterr().out)
    assert (first["cluster_id"], first["index"], first["term"]) == (second["cluster_id"], second["index"], second["term"])


@pytest.mark.parametrize("longest", [(), ("--longest-lease", "700.25")])
def test_who_does_what_recover_says_next_makes_the_same_group(
    longest: tuple[str, ...], tmp_path: Path, env: RealEnv, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    survivor(env, tmp_path / "data")
    assert run(["recover", *GROUP, "--data-dir", "data", "--save", "for-others", *longest, "--yes"], prog="tenure") == 0
    said = capsys.readouterr().out
    (restore,) = re.findall(r"^next +'(.*?)'", said, re.MULTILINE)
    other = ["--listen", MEMBERS[1], "--peers", ",".join(MEMBERS), "--data-dir", "second"]
    assert run([*restore.split(), *other], prog="tenure") == 0
    of_one, of_another = (re.findall(r"^cluster id +(\w+)", text, re.MULTILINE) for text in (said, capsys.readouterr().out))
    assert of_one == of_another


def test_recover_does_not_touch_a_directory_in_use(
    tmp_path: Path, env: RealEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "data"
    survivor(env, directory)
    other = RealDisk(str(directory))
    call = ["recover", "--listen", MEMBERS[0], "--single", "--data-dir", str(directory), "--yes"]
    assert run(call, prog="tenure") == 2
    assert "in use by another node" in capsys.readouterr().err
    other.close()


def test_nor_one_that_a_node_was_started_with_meanwhile(
    tmp_path: Path, env: RealEnv, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "data"
    survivor(env, directory)
    node: list[RealDisk] = []
    begin = recovery.begin

    def begin_slowly(env: Env, path: str, beginning: Beginning) -> None:
        begin(env, path, beginning)
        node.append(RealDisk(str(directory)))

    monkeypatch.setattr(recovery, "begin", begin_slowly)
    call = ["recover", "--listen", MEMBERS[0], "--single", "--data-dir", str(directory), "--yes"]
    assert run(call, prog="tenure") == 2
    assert "in use by another node" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["data", "data.recovered"]
    node[0].close()


def test_an_interrupted_recover_is_explained(tmp_path: Path, env: RealEnv, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "data"
    survivor(env, directory)
    directory.rename(tmp_path / "data.before-recover")
    call = ["recover", "--listen", MEMBERS[0], "--single", "--data-dir", str(directory), "--yes"]
    assert run(call, prog="tenure") == 1
    said = capsys.readouterr().err
    assert is_one_line(said)
    assert "was interrupted" in said


@pytest.mark.parametrize("given", ["data", "data/", "./elsewhere/../data//", "link", "link/"])
def test_however_its_directory_is_named_recover_replaces_it(
    given: str, tmp_path: Path, env: RealEnv, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    survivor(env, tmp_path / "data")
    assert run(["recover", *GROUP, "--data-dir", given, "--save", "for-others", "--yes", "--json"], prog="tenure") == 0
    assert json.loads(capsys.readouterr().out)["data_dir"] == str(tmp_path / "data")
    assert sorted(os.listdir()) == ["data", "data.before-recover", "elsewhere", "for-others", "link"]
    storage = open_storage(env, given, "process")
    assert (storage.snapshots.index, list(storage.meta.formed)) == (4, list(MEMBERS))
    storage.close()


def test_a_directory_that_cannot_be_replaced_is_refused_before_anything_is_made(
    tmp_path: Path, env: RealEnv, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "data"
    survivor(env, directory)
    before = sorted(tmp_path.rglob("*"))

    def busy(old: str, new: str) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr("cluster.directories.os.rename", busy)
    call = ["recover", *GROUP, "--data-dir", "data", "--save", "for-others"]
    assert run(call, prog="tenure") == 0, "what it has is told all the same"
    capsys.readouterr()
    assert run([*call, "--yes"], prog="tenure") == 2
    said = capsys.readouterr().err
    assert is_one_line(said)
    assert f"{str(directory)!r} cannot be replaced by another: it is a mount point" in said
    assert sorted(tmp_path.rglob("*")) == before


def test_what_cannot_be_renamed_is_found_out_by_the_system() -> None:
    with pytest.raises(UsageError, match="'/dev' cannot be replaced by another"):
        refuse_fixed("/dev")


def gap(env: RealEnv, directory: Path, empty: bool) -> None:
    """What an end between the two renames leaves; and then, maybe, whoever makes a node's directory before it starts the node."""
    survivor(env, directory)
    directory.rename(f"{directory}.before-recover")
    Path(f"{directory}.recovered").mkdir()
    if empty:
        directory.mkdir()


def is_untouched(directory: Path) -> bool:
    return not directory.exists() or not os.listdir(directory)


@pytest.mark.parametrize(("end", "empty"), [("", False), ("/", False), ("", True)])
def test_a_node_does_not_begin_anew_where_a_recover_was_interrupted__I8(
    end: str, empty: bool, tmp_path: Path, env: RealEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "data"
    gap(env, directory, empty)
    # Nobody has this address: a node that went on would end for that.
    call = ["node", "--listen", "192.0.2.1:7101", "--insecure", "--single", "--data-dir", f"{directory}{end}"]
    assert run(call, prog="tenure") == 1
    said = capsys.readouterr().err
    assert is_one_line(said)
    assert "was interrupted" in said
    assert run(["recover", "--listen", MEMBERS[0], "--single", "--data-dir", f"{directory}{end}"], prog="tenure") == 1
    assert "was interrupted" in capsys.readouterr().err
    assert is_untouched(directory)


@pytest.mark.parametrize(("end", "empty"), [("", False), ("/", False), ("", True)])
def test_nor_does_a_process_that_joins_nor_a_restore__I8(
    end: str, empty: bool, saved: Path, tmp_path: Path, env: RealEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "data"
    gap(env, directory, empty)
    (port,) = free_ports(1)
    with pytest.raises(CoordinationError, match="was interrupted"):
        tenure.join(f"127.0.0.1:{port}", single=True, data_dir=f"{directory}{end}")
    with pytest.raises(CoordinationError, match="was interrupted"):
        tenure.join_or_connect(tmp_path / "socket", f"127.0.0.1:{port}", single=True, data_dir=f"{directory}{end}")
    assert run(["snapshot", "restore", str(saved), *GROUP, "--data-dir", f"{directory}{end}"], prog="tenure") == 1
    assert "was interrupted" in capsys.readouterr().err
    assert is_untouched(directory)
