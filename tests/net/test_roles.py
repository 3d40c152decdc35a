"""A secret for each role: who has one serves it and no other (G6); how secrets are written down, and that no text shows one (G3)."""

from __future__ import annotations

import logging

import pytest

from cluster.address import Address
from cluster.client.door import TcpDoor
from cluster.env import RealEnv
from cluster.errors import AuthenticationError, UsageError
from cluster.net import open_client
from cluster.ports import Hello
from cluster.secrets import ROLES, SECRET_MAX_BYTES, Secrets, parse_secrets
from tests.net.support import Node, addresses, client, formed, mesh, run, until

pytestmark = pytest.mark.fast

SECRETS = {role: f"the secret of every {role} here" for role in ROLES}
ADMIN = Hello("admin", "operator:1", b"a" * 16)


def hello_of(role: str, node_id: str) -> Hello:
    return Hello(role, node_id if role == "peer" else f"{role}:1", role.encode().ljust(16))


def test_each_role_has_its_own_secret_and_no_other_serves__G6(caplog: pytest.LogCaptureFixture) -> None:
    async def work(env: RealEnv) -> None:
        low, high = addresses(2)
        node = Node(env, low, [high], secret=SECRETS)
        await node.net.start()
        at = Address.parse(low)
        for role in ROLES:
            for shown in ROLES:
                hello, secret = hello_of(role, high), SECRETS[shown].encode()
                if role == shown:
                    connection, welcome = await open_client(env, at, hello, secret, 8.0)
                    assert welcome.node_id == low
                    connection.close()
                    continue
                with pytest.raises(AuthenticationError, match=f"different secrets for the role {role}"):
                    await open_client(env, at, hello, secret, 8.0)
        await node.stop()

    with caplog.at_level(logging.DEBUG):
        run(work)
    assert "have different secrets for the role admin" in caplog.text
    assert not [secret for secret in SECRETS.values() if secret in caplog.text]


def test_nodes_with_a_secret_for_each_role_find_each_other() -> None:
    async def work(env: RealEnv) -> None:
        nodes = await mesh(env, 3, secret=SECRETS)
        await formed(nodes)
        for node in nodes:
            await node.stop()

    run(work)


def test_a_role_without_a_secret_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1, secret={role: SECRETS[role] for role in ("peer", "client")})
        at = Address.parse(node.address)
        for secret in (SECRETS["admin"].encode(), SECRETS["client"].encode(), None):
            with pytest.raises(AuthenticationError, match="no secret for the role admin"):
                await open_client(env, at, ADMIN, secret, 8.0)
        connection, _ = await open_client(env, at, client(), SECRETS["client"].encode(), 8.0)
        connection.close()
        await until(lambda: len(node.ends) == 1, "gone")
        await node.stop()

    with caplog.at_level(logging.INFO):
        run(work)
    assert "code=role-closed" in caplog.text


def test_one_secret_serves_every_role() -> None:
    secrets = Secrets.of("one for all of them")
    assert {secrets.of_role(role) for role in ROLES} == {b"one for all of them"}
    assert all(Secrets.of(None).of_role(role) is None for role in ROLES)
    assert not Secrets.of(None)


def test_a_client_without_the_secret_of_its_role_does_not_call() -> None:
    async def work(env: RealEnv) -> None:
        door = TcpDoor(["127.0.0.1:1"], Secrets.of({"client": SECRETS["client"]}))
        with pytest.raises(UsageError, match="no secret for the role admin") as caught:
            await door.open(env, "127.0.0.1:1", ADMIN)
        assert "'admin: SECRET'" in caught.value.hint

    run(work)


def test_a_node_needs_the_secret_of_peers() -> None:
    async def work(env: RealEnv) -> None:
        with pytest.raises(UsageError, match="no secret for the role peer"):
            Node(env, addresses(1)[0], secret={"client": SECRETS["client"]})

    run(work)


def test_a_file_holds_one_secret_or_one_for_each_role() -> None:
    assert parse_secrets(b"  correct horse battery\n", "f").of_role("admin") == b"correct horse battery"
    assert parse_secrets(b"with: a colon is no role", "f").of_role("admin") == b"with: a colon is no role"
    text = b"# of the raft group\npeer: " + b"p" * 16 + b"\n\n  client:" + b"c" * 32 + b"  \nadmin : " + b"a" * SECRET_MAX_BYTES + b"\n"
    secrets = parse_secrets(text, "f")
    assert [secrets.of_role(role) for role in ROLES] == [b"p" * 16, b"c" * 32, b"a" * SECRET_MAX_BYTES]
    assert parse_secrets(b"client: " + b"c" * 16, "f").named("client")
    assert not parse_secrets(b"client: " + b"c" * 16, "f").named("admin")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "f holds 0 bytes"),
        (b"hunter2 hunter2", "f holds 15 bytes"),
        (b"h" * (SECRET_MAX_BYTES + 1), "f holds 4097 bytes"),
        (b"client: hunter2\n", "f, line 1 holds 7 bytes"),
        (b"client: hunter2hunter2hunter2\nhunter2: hunter2hunter2\n", "f, line 2 begins with no role"),
        (b"# hunter2\nhunter2hunter2hunter2\n", "f, line 2 begins with no role"),
        (b"peer: hunter2hunter2hunter2\npeer: hunter2hunter2hunter2\n", "line 2: the role peer is there twice"),
    ],
)
def test_a_file_that_holds_no_secrets_is_refused_and_not_shown__G3(text: bytes, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_secrets(text, "f")
    assert complaint in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(Secrets.of("hunter2"))
