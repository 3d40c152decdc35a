"""``snapshot`` on files: what it says, what it refuses, and that it changes nothing when it refuses; which wrong calls are refused."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.backup import begin_anew, decode, encode
from cluster.cli.main import run
from cluster.env import RealDisk, RealEnv
from cluster.limits import LEASE_MAX_MS
from cluster.storage import open_storage
from tests.cli.support_backup import GROUP, MEMBERS, backup, state_with_a_lease
from tests.cli.support_cli import is_one_line

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("own_logging")]


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
    (["recover", "--listen", MEMBERS[0], "--single", "--data-dir", "nowhere"], "there is no data directory '/"),
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
