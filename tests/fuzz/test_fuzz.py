"""Each reader under some thousand mutated inputs, and the fuzzer itself on readers that are broken."""

from __future__ import annotations

import pytest

from tests.fuzz.engine import Found, Target, fuzz
from tests.fuzz.targets import TARGETS

RUNS = 1_500
# A handshake is played up to each of its steps for every input.
HANDSHAKES = 150


@pytest.mark.parametrize("name", TARGETS)
def test_no_bytes_make_a_reader_do_what_it_must_not__I7(name: str) -> None:
    enough = HANDSHAKES if name == "handshake" else RUNS
    report = fuzz(TARGETS[name], 0, lambda runs: runs >= enough)
    assert report.runs == enough
    assert report.kept > len(TARGETS[name].seeds()), "something new was shown"


def test_a_find_says_how_to_repeat_it() -> None:
    def broken(data: bytes) -> object:
        return data[4] if len(data) > 3 else None

    with pytest.raises(Found, match=r"python -m tests\.fuzz --seed 7 broken"):
        fuzz(Target("broken", lambda: [b"12345678"], broken), 7, lambda runs: runs >= 5_000)


def test_what_is_new_is_kept_so_that_one_byte_after_the_other_is_found() -> None:
    """Four right bytes at once are one in four thousand millions; one after the other they are found soon."""

    def lock(data: bytes) -> object:
        right = 0
        while right < 4 and data[right : right + 1] == b"\x00\x7f\xff\xc1"[right : right + 1]:
            right += 1
        assert right < 4
        return right

    with pytest.raises(Found):
        fuzz(Target("lock", lambda: [b"xxxx"], lock), 1, lambda runs: runs >= 20_000)
