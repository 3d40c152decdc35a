"""The doors ``join`` and ``connect`` with secrets and TLS."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tenure
from tests.certificates import HOST, Authority
from tests.support_cluster import free_ports

SECRETS = {"peer": "the secret of the nodes", "client": "the secret of clients", "admin": "the secret of operators"}


def test_a_node_of_this_process_and_its_clients(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    address = f"{HOST}:{free_ports(1)[0]}"
    node, client = authority.issue("node", HOST), authority.issue("client")
    as_client: dict[str, Any] = {"secret": SECRETS["client"], "tls": client}
    as_admin: dict[str, Any] = {"secret": {"admin": SECRETS["admin"]}, "tls": client, "role": "admin"}
    with (
        tenure.join(address, single=True, data_dir=str(tmp_path / "data"), secret=SECRETS, tls=node) as own,
        tenure.connect(address, **as_client) as other,
        tenure.connect(address, **as_admin) as operator,
    ):
        lease = own.acquire("job")
        assert lease is not None
        assert other.acquire("job") is None
        with pytest.raises(tenure.UsageError, match="admin"):
            other.revoke("job")
        assert operator.revoke("job") == 1

    async def refused() -> None:
        with pytest.raises(tenure.Unavailable):
            await tenure.aio.connect(address, timeout=0.3, **as_client)

    asyncio.run(refused())


def test_a_node_of_this_process_needs_a_secret_of_peers_where_there_are_any(tmp_path: Path) -> None:
    with pytest.raises(tenure.UsageError, match="no secret for the role peer"):
        tenure.join(
            f"{HOST}:7101", single=True, data_dir=str(tmp_path / "data"), secret={"client": "a secret of clients"}
        )
    assert not (tmp_path / "data").exists()
