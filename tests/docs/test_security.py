"""The commands and the program of docs/security.md do what is written there.

Knows: the page's blocks. Must not know: certificates.
"""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.secrets import parse_secrets
from cluster.tls import Tls
from tests.certificates import options
from tests.cli.support_cli import environ
from tests.docs.markdown import examples
from tests.docs.test_examples import at_ports, ports_of
from tests.house import read
from tests.support_cluster import NodeGroup

PAGE = "docs/security.md"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the page's commands use openssl")
def test_the_page_makes_files_that_nodes_and_clients_can_use(tmp_path: Path) -> None:
    for block in re.findall(r"^```sh\n(.*?)^```", read(PAGE), re.S | re.M):
        subprocess.run(["sh", "-e", "-c", block], cwd=tmp_path, check=True, timeout=60)
    made = {path.name for path in tmp_path.iterdir()}
    assert made >= {"ca.pem", "node.pem", "node.key", "client.pem", "client.key", "client.secrets", "operator.secrets"}
    assert stat.S_IMODE((tmp_path / "node.secrets").stat().st_mode) == 0o600
    secrets = {name: parse_secrets((tmp_path / f"{name}.secrets").read_bytes(), name) for name in ("client", "operator")}
    assert [secrets["operator"].named(role) for role in ("peer", "client", "admin")] == [False, True, True]
    node, client = (Tls(*(str(tmp_path / name) for name in (f"{who}.pem", f"{who}.key", "ca.pem"))) for who in ("node", "client"))
    secured = ["--secret-file", str(tmp_path / "node.secrets"), *options(node), "--durability", "process"]
    with NodeGroup(tmp_path, options=secured, secret=secrets["client"], tls=client) as group:
        program = tmp_path / "example.py"
        program.write_text(at_ports(examples(PAGE)["tls-client"], ports_of(group)))
        result = subprocess.run(
            [sys.executable, "-W", "error", str(program)],
            cwd=tmp_path,
            env=environ(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (result.returncode, result.stdout, result.stderr) == (0, "I lead, and nobody listens\n", "")
