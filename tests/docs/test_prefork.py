"""The application of docs/prefork.md runs under gunicorn; only its paths and its port are moved.

Knows: what its workers print. Must not know: how they agree on a node.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support_cli import environ
from tests.docs.markdown import examples
from tests.support import eventually
from tests.support_cluster import free_ports

FILE = "docs/prefork.md"


@pytest.mark.parametrize("preload", [False, True])
def test_the_application_runs_its_job_under_rising_tokens(
    preload: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("prefork")
    texts = examples(FILE)
    assert set(texts) == {"app", "gunicorn_conf"}
    (port,) = free_ports(1)
    moved = {"/run/shop": str(directory), "/var/lib/shop": str(directory), "7101": str(port)}
    for old, new in moved.items():
        assert old in texts["app"]
        texts["app"] = texts["app"].replace(old, new)
    (directory / "app.py").write_text(texts["app"])
    (directory / "gunicorn.conf.py").write_text(texts["gunicorn_conf"])
    log = directory / "log"
    options = [*(["--preload"] if preload else []), "--bind", f"unix:{directory}/http.sock"]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", *options, "app:app"],
            cwd=directory,
            env=environ({"HOME": str(directory)}),
            stdout=output,
            stderr=output,
        )
    try:
        eventually(lambda: log.read_text().count("under token") >= 3, 60.0, f"three runs\n{_text(log)}")
    finally:
        server.send_signal(signal.SIGTERM)
        status = server.wait(30)
    assert status == 0, _text(log)
    assert "Traceback" not in _text(log), _text(log)
    tokens = [int(token) for token in re.findall(r"under token (\d+)", _text(log))]
    assert tokens == sorted(set(tokens))


def _text(log: Path) -> str:
    return log.read_text(errors="replace")
