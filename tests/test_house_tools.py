"""The tools of the house's tests find what they are meant to find.

Knows: small files that break the rules. Must not know: the project's own files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import cython_function_lengths, cython_imports, function_lengths, imports
from tests.test_house import MACHINE, REGISTRY, UNFINISHED, at_home

pytestmark = pytest.mark.fast

PYTHON = """
from typing import TYPE_CHECKING
import os.path
if TYPE_CHECKING:
    import socket
def outer():
    from pickle import loads
    @decorated
    async def inner(
        a,
    ):
        return a
    return inner
"""

CYTHON = """
from libc.string cimport memcpy
cimport cython
import os
cdef class A:
    cdef int x
    cdef int f(self,
               int y) except -1:
        # a comment at any depth
        return 1

    def g(self):
        return 2
cdef inline int h(int z) noexcept nogil:
    z += 1

    return z
cdef int counter = len(())
"""


def written(directory: Path, name: str, text: str) -> str:
    path = directory / name
    path.write_text(text)
    return str(path)


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    found = {(each.module, each.for_types) for each in imports(written(tmp_path, "a.py", PYTHON))}
    assert found == {("typing", False), ("os.path", False), ("socket", True), ("pickle", False)}


def test_functions_are_measured_from_def_to_last_line(tmp_path: Path) -> None:
    found = {name: size for name, _, size in function_lengths(written(tmp_path, "a.py", PYTHON))}
    assert found == {"outer": 8, "inner": 4}


def test_cython_functions_are_measured_too(tmp_path: Path) -> None:
    found = [(line, size) for _, line, size in cython_function_lengths(written(tmp_path, "a.pyx", CYTHON))]
    assert found == [(7, 4), (12, 2), (14, 4)]


def test_cython_imports_are_told_apart(tmp_path: Path) -> None:
    assert set(cython_imports(written(tmp_path, "a.pyx", CYTHON))) == {
        ("libc.string", True),
        ("cython", True),
        ("os", False),
    }


def test_a_home_is_a_file_or_a_directory() -> None:
    assert at_home("cluster/env.py", ("cluster/env.py",))
    assert at_home("cluster/raft/peer.py", ("cluster/raft/",))
    assert not at_home("cluster/rafts.py", ("cluster/raft/",))
    assert not at_home("cluster/client/engine.py", ())


def test_words_that_do_not_belong_are_found() -> None:
    assert MACHINE.search("see /wor" + "k/x")
    assert REGISTRY.search("https://PyPI" + ".org/simple")
    assert UNFINISHED.search("# TO" + "DO: later")
    assert not UNFINISHED.search("a hackney carriage")
