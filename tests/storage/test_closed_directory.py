"""A directory that this user may not use is a usage error, and not taken for an empty one or a broken disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.unprivileged import run_as_anybody

pytestmark = pytest.mark.fast

CLOSED = """
import asyncio, os, sys

from cluster.env import RealEnv
from cluster.errors import UsageError
from cluster.storage import open_storage
from tests.unprivileged import CANNOT, NOBODY, become_anybody

path, mode = sys.argv[1], int(sys.argv[2])
env = RealEnv(asyncio.new_event_loop())
open_storage(env, path, "fsync").close()
if os.geteuid() == 0:
    for name in (path, *(os.path.join(path, each) for each in os.listdir(path))):
        os.chown(name, NOBODY, NOBODY)
become_anybody()
if not os.access(path, os.W_OK):
    sys.exit(CANNOT)
open_storage(env, path, "fsync").close()
closed = os.path.join(path, "closed")
os.mkdir(closed, mode)
try:
    open_storage(env, closed, "fsync")
except UsageError as error:
    print(error)
os.chmod(closed, 0o700)
open_storage(env, closed, "fsync").close()
"""


@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_a_directory_that_is_closed_to_this_user_is_a_usage_error(mode: int) -> None:
    # Not below this test's own directory, which only its user may enter.
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        path = f"{above}/n1"
        assert f"data directory '{path}/closed' cannot be used: Permission denied" in run_as_anybody(CLOSED, path, str(mode))
