"""``snapshot`` and ``recover`` on files: what they say, what they refuse, and that they change nothing when they refuse."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster._table import LeaseTable
from cluster.backup import Backup, begin_anew, decode, encode
from cluster.cli.main import run
from cluster.codec import pack
from cluster.env import RealDisk, RealEnv
from cluster.limits import LEASE_MAX_MS
from cluster.raft.listing import members_entry
from cluster.raft.snapshot import encode as encode_snapshot
from cluster.server.batcher import batch_of
from cluster.storage import open_storage
from cluster.storage.snapshots import slices
from tests.cli.support_cli import is_one_line

pytestmark = pytest.mark.fast

MEMBERS = ("127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103")
GROUP = ("--listen", MEMBERS[0], "--peers", ",".join(MEMBERS))


def state_with_a_lease(lease_ms: int = 6_000) -> bytes:
    table = LeaseTable()
    table.apply(batch_of(pack([8]), 1, 0))
    table.apply(batch_of(pack([11, b"c" * 16, 1_700_000_000_000]), 1, 10))
    table.apply(batch_of(pack([1, b"a" * 16, b"job", lease_ms, 1, 0, 0, b"host:1", b""]), 1, 20))
    return table.snapshot()


def backup(state: bytes | None = None) -> Backup:
    return Backup(b"b" * 16, 1_700_000_000_000, MEMBERS[1], 12, 3, MEMBERS, state_with_a_lease() if state is None else state)


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """The command line sets up logging for its process, which is this one here."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A backup's file, in a directory that commands run in."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "backup"
    path.write_bytes(encode(backup()))
    return path


@pytest.fixture
def env() -> Iterator[RealEnv]:
    loop = asyncio.new_event_loop()
    env = RealEnv(loop)
    yield env
    env.close()
    loop.close()


def test_inspect_says_what_is_in_it(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["snapshot", "inspect", str(saved), "--json"], prog="tenure") == 0
    said = json.loads(capsys.readouterr().out)
    expected = {
        "index": 12, "term": 3, "members": list(MEMBERS), "leases": 1, "sessions": 0, "records": 0,
        "longest_lease": 6.0, "size": saved.stat().st_size,
        "cluster_id": (b"c" * 16).hex(), "next_token": (1_700_000_000 << 21) + 1, "node_id": MEMBERS[1], "made_at": 1_700_000_000,
    }  # fmt: skip
    assert {key: said[key] for key in expected} == expected
    assert run(["snapshot", "inspect", str(saved)], prog="tenure") == 0
    text = capsys.readouterr().out
    assert "2023-11-14 22:13:20 UTC by 127.0.0.1:7102" in text
    assert "up to index 12, term 3" in text
    assert "records       0, 0 bytes" in text


def changed(at: int) -> bytes:
    data = bytearray(encode(backup()))
    data[at] ^= 1
    return bytes(data)


WHOLE = len(encode(backup()))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "it is empty"),
        (b"TEN", "cut short"),
        (b"something else entirely, and long enough", "does not begin like one"),
        (changed(8), "has format 0, this release reads 1"),
        (changed(60), "checksum is wrong"),
        (changed(WHOLE - 1), "checksum is wrong"),
        (encode(backup())[:-1], f"has {WHOLE - 1} bytes of {WHOLE}"),
        (encode(backup()) + b"\0", f"has {WHOLE + 1} bytes of {WHOLE}"),
        (encode(backup(b"no state")), "state cannot be loaded"),
        (encode(replace(backup(), made_ms=float("inf"))), "its head cannot be read"),  # type: ignore[arg-type]
        (encode(replace(backup(), backup_id=3 << 30)), "its head cannot be read"),  # type: ignore[arg-type]
        (encode(replace(backup(), index=(1 << 53) + 1)), "its head cannot be read"),
        (encode(replace(backup(), term=-1)), "its head cannot be read"),
        (encode(replace(backup(), node_id="\x1b[2J")), "its head cannot be read"),
        (encode(replace(backup(), members=("a:1\nb:1",))), "its head cannot be read"),
        (None, "No such file"),
    ],
)
def test_a_bad_file_is_named_in_one_line(
    tmp_path: Path, data: bytes | None, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad"
    if data is not None:
        path.write_bytes(data)
    for call in (["inspect", str(path)], ["restore", str(path), *GROUP, "--data-dir", str(tmp_path / "made")]):
        assert run(["snapshot", *call], prog="tenure") in (1, 2)
        said = capsys.readouterr()
        assert is_one_line(said.err), said.err
        assert complaint in said.err
        assert str(path) in said.err
    assert not (tmp_path / "made").exists()


def test_every_flipped_byte_and_every_length_is_noticed() -> None:
    data = encode(backup())
    for at in range(len(data)):
        spoiled = bytearray(data)
        spoiled[at] ^= 0x10
        for bad in (bytes(spoiled), data[:at]):
            with pytest.raises(Exception, match=r"x.file (is|has)"):
                decode(bad, "x.file")


def test_restore_makes_a_directory_that_a_node_can_start_with(
    saved: Path, tmp_path: Path, env: RealEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["snapshot", "restore", str(saved), *GROUP, "--json"], prog="tenure") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["wait"], said["members"], said["index"]) == (6.0, list(MEMBERS), 12)
    directory = tmp_path / "tenure-data" / MEMBERS[0]
    assert said["data_dir"] == str(directory.relative_to(tmp_path))
    assert directory.stat().st_mode & 0o777 == 0o700
    storage = open_storage(env, str(directory), "fsync")
    assert storage.meta.cluster_id.hex() == said["cluster_id"] != (b"c" * 16).hex()
    assert not storage.meta.joined
    storage.close()


def test_the_new_cluster_id_is_that_of_the_state_and_the_members() -> None:
    """So nodes that were restored apart from each other know each other, and nobody else."""
    first = begin_anew(backup(), MEMBERS)
    assert begin_anew(backup(), tuple(reversed(MEMBERS))) == first
    others = [
        begin_anew(backup(state_with_a_lease(7_000)), MEMBERS), begin_anew(backup(), MEMBERS[:2]), begin_anew(backup(), MEMBERS, 9_000),
    ]  # fmt: skip
    assert len({first.cluster_id, *(other.cluster_id for other in others)}) == 4
    assert [first.wait_ms, *(other.wait_ms for other in others)] == [6_000, 7_000, 6_000, 9_000]
    assert begin_anew(backup(), MEMBERS, LEASE_MAX_MS).wait_ms == LEASE_MAX_MS


WRONG = [
    (["snapshot"], "needs an action"),
    (["snapshot", "keep"], "save, inspect, restore"),
    (["snapshot", "save", "file"], "TENURE_CONNECT"),
    (["snapshot", "inspect"], "FILE"),
    (["snapshot", "restore", "backup"], "--listen"),
    (["snapshot", "restore", "backup", "--listen", MEMBERS[0]], "has no peers"),
    (["snapshot", "restore", "backup", *GROUP, "--single"], "exclude each other"),
    (["snapshot", "restore", "backup", *GROUP, "--longest-lease", "-1"], "between 0 and 604800"),
    (["snapshot", "restore", "backup", *GROUP, "--longest-lease", "604801"], "between 0 and 604800"),
    (["recover", "--listen", MEMBERS[0], "--single", "--data-dir", "nowhere"], "there is no data directory 'nowhere'"),
    (["recover", "--single"], "--listen"),
]


@pytest.mark.parametrize(("arguments", "complaint"), WRONG)
def test_a_wrong_call_is_one_line_and_status_2(
    saved: Path, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, prog="tenure") == 2
    said = capsys.readouterr().err
    assert is_one_line(said), said
    assert complaint in said


def test_help_lists_the_actions_and_each_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["snapshot", "--help"], prog="tenure") == 0
    listed = capsys.readouterr().out
    assert all(action in listed for action in ("save", "inspect", "restore"))
    for call in (["snapshot", "save"], ["snapshot", "inspect"], ["snapshot", "restore"], ["recover"]):
        with pytest.raises(SystemExit) as ended:
            run([*call, "--help"], prog="tenure")
        assert ended.value.code == 0
        assert "example" in capsys.readouterr().out


def test_a_directory_that_is_not_empty_or_in_use_is_left_alone(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "something").write_text("of value")
    call = ["snapshot", "restore", str(saved), *GROUP, "--data-dir"]
    assert run([*call, str(full)], prog="tenure") == 2
    assert "is not empty" in capsys.readouterr().err
    assert (full / "something").read_text() == "of value"
    other = RealDisk(str(tmp_path / "used"))
    assert run([*call, str(tmp_path / "used")], prog="tenure") == 2
    assert "in use by another node" in capsys.readouterr().err
    other.close()
    assert os.listdir(tmp_path / "used") == ["lock"]


def test_save_does_not_replace_a_file_unless_told(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = saved.read_bytes()
    assert run(["snapshot", "save", str(saved), "--connect", "127.0.0.1:1"], prog="tenure") == 2
    assert "--force" in capsys.readouterr().err
    assert run(["snapshot", "save", "new", "--connect", "127.0.0.1:1", "--timeout", "0.1"], prog="tenure") == 69
    assert saved.read_bytes() == before
    assert not Path("new").exists()


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


def test_an_interrupted_recover_is_explained(tmp_path: Path, env: RealEnv, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "data"
    survivor(env, directory)
    directory.rename(tmp_path / "data.before-recover")
    call = ["recover", "--listen", MEMBERS[0], "--single", "--data-dir", str(directory), "--yes"]
    assert run(call, prog="tenure") == 1
    said = capsys.readouterr().err
    assert is_one_line(said)
    assert "was interrupted" in said


def test_a_node_does_not_begin_anew_where_a_recover_was_interrupted__I8(
    tmp_path: Path, env: RealEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "data"
    survivor(env, directory)
    directory.rename(tmp_path / "data.before-recover")
    (tmp_path / "data.recovered").mkdir()
    # Nobody has this address: a node that went on would end for that.
    call = ["node", "--listen", "192.0.2.1:7101", "--insecure", "--single", "--data-dir", str(directory)]
    assert run(call, prog="tenure") == 1
    said = capsys.readouterr().err
    assert is_one_line(said)
    assert "was interrupted" in said
    assert not directory.exists()
