"""Nodes on real sockets: a whole mesh, frames in order, who is refused, what happens when one goes and comes back."""

from __future__ import annotations

import logging

import pytest

from cluster.codec import frame
from cluster.env import RealEnv
from cluster.errors import UsageError
from cluster.limits import PEER_FRAME_MAX_BYTES
from cluster.net import dialer as dialer_module
from cluster.net import mesh as mesh_module
from cluster.ports import Hello
from tests.net.support import Node, Raw, addresses, formed, mesh, run, until

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("plain", [False, True], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("secret", [b"a secret", None])
def test_three_nodes_find_each_other_and_talk(plain: bool, secret: bytes | None) -> None:
    async def work(env: RealEnv) -> None:
        nodes = await mesh(env, 3, secret=secret)
        await formed(nodes)
        for node in nodes:
            shared = frame(b"to all from " + node.address.encode())
            for other in nodes:
                if other is not node:
                    assert node.net.send(other.address, b"first")
                    assert node.net.send_encoded(other.address, shared)
        for node in nodes:
            for other in nodes:
                if other is not node:
                    want = [b"first", b"to all from " + other.address.encode()]
                    await until(lambda n=node, o=other, w=want: n.frames(o.address) == w, "both frames, in order")  # type: ignore[misc]
        for node in nodes:
            await node.stop()
        assert all(not node.net.connected() for node in nodes)

    run(work, plain=plain)


def test_large_and_small_frames_come_whole_and_in_order() -> None:
    async def work(env: RealEnv) -> None:
        nodes = await mesh(env, 2)
        await formed(nodes)
        payloads = [bytes([number % 251]) * size for number, size in enumerate([1, PEER_FRAME_MAX_BYTES, 3, 100_000, 4])]
        for payload in payloads:
            assert nodes[0].net.send(nodes[1].address, payload)
        await until(lambda: nodes[1].frames(nodes[0].address) == payloads, "all of them")
        for node in nodes:
            await node.stop()

    run(work)


def test_a_payload_that_the_other_side_would_refuse_is_not_sent() -> None:
    async def work(env: RealEnv) -> None:
        nodes = await mesh(env, 2)
        await formed(nodes)
        for wrong in (b"", bytes(PEER_FRAME_MAX_BYTES + 1)):
            with pytest.raises(ValueError, match="payload"):
                nodes[0].net.send(nodes[1].address, wrong)
        assert not nodes[0].net.send("127.0.0.1:1", b"to nobody")
        for node in nodes:
            await node.stop()

    run(work)


def test_a_node_that_comes_back_is_connected_again() -> None:
    async def work(env: RealEnv) -> None:
        nodes = await mesh(env, 3)
        await formed(nodes)
        for gone in range(3):
            await nodes[gone].stop()
            name = nodes[gone].address
            await until(lambda n=name: not any(n in node.net.connected() for node in nodes), "its end is noticed")  # type: ignore[misc]
            nodes[gone] = Node(env, name, [node.address for node in nodes])
            await nodes[gone].net.start()
            await formed(nodes)
        for node in nodes:
            ups = [entry for entry in node.story if entry[0] != "frame"]
            for peer in {entry[1] for entry in ups}:
                kinds = [entry[0] for entry in ups if entry[1] == peer]
                assert kinds == ["up", "down"] * (len(kinds) // 2) + ["up"] * (len(kinds) % 2)
            await node.stop()

    run(work)


def test_both_sides_may_call_when_only_one_of_them_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lower one knows a name that does not lead to the higher one; the higher one's calls get through."""

    async def work(env: RealEnv) -> None:
        low, high = addresses(2)
        one, two = Node(env, low, [high]), Node(env, high, [low])
        call = dialer_module.Dialer._call
        monkeypatch.setattr(dialer_module.Dialer, "_call", lambda self: None if self.peer == high else call(self))
        await one.net.start()
        await two.net.start()
        await formed([one, two])
        assert two.net.send(low, b"up")
        assert one.net.send(high, b"down")
        await until(lambda: one.frames(high) and two.frames(low), "frames both ways")
        await one.stop()
        await two.stop()

    run(work)


def test_a_dropped_peer_is_closed_and_refused_and_may_be_added_again() -> None:
    async def work(env: RealEnv) -> None:
        one, two = await mesh(env, 2)
        await formed([one, two])
        one.net.drop_peer(two.address)
        assert one.story[-1] == ("down", two.address)
        assert not one.net.send(two.address, b"x")
        await until(lambda: ("down", one.address) in two.story, "the other side notices")
        one.net.add_peer(two.address)
        await formed([one, two])
        await one.stop()
        await two.stop()

    run(work)


def test_a_peer_removed_by_a_callback_gets_nothing_more() -> None:
    async def work(env: RealEnv) -> None:
        one, two = await mesh(env, 2)
        await formed([one, two])
        seen: list[bytes] = []

        def once(peer: str, payload: bytes) -> None:
            seen.append(payload)
            two.net.drop_peer(peer)

        two.net.on_frame = once
        one.net.send_encoded(two.address, frame(b"a") + frame(b"b"))
        await until(lambda: ("down", one.address) in two.story, "dropped")
        await until(lambda: ("down", two.address) in one.story, "noticed")
        assert seen == [b"a"]
        await one.stop()
        await two.stop()

    run(work)


def test_a_stranger_with_the_secret_is_not_a_peer(caplog: pytest.LogCaptureFixture) -> None:
    async def work(env: RealEnv) -> None:
        names = addresses(3)
        one, two = Node(env, names[0], names[:2]), Node(env, names[1], names[:2])
        stranger = Node(env, names[2], names)
        for node in (one, two, stranger):
            await node.net.start()
        await formed([one, two])
        await until(lambda: caplog.text.count("code=member") >= 2, "said on both sides")
        assert not stranger.net.connected()
        assert one.is_up(two.address)
        for node in (one, two, stranger):
            await node.stop()

    with caplog.at_level(logging.WARNING):
        run(work)
    assert {record.name for record in caplog.records} >= {"cluster.net.node", "cluster.net.dialer"}


@pytest.mark.parametrize(
    ("code", "odd"),
    [
        ("cluster", {"cluster_id": b"D" * 16}),
        ("secret", {"secret": b"another"}),
        ("dialer-lacks-secret", {"secret": None}),
        ("acceptor-lacks-secret", {"secret": None}),
    ],
)
def test_the_odd_one_is_refused_on_both_sides_and_the_others_go_on(
    code: str, odd: dict[str, bytes | None], caplog: pytest.LogCaptureFixture
) -> None:
    async def work(env: RealEnv) -> None:
        names = addresses(3)
        # Who lacks the secret calls, or is called, by being the lower or the higher one.
        at = 0 if code == "dialer-lacks-secret" else 2
        nodes = [
            Node(env, name, names, **({"cluster_id": b"C" * 16} | (odd if number == at else {})))  # type: ignore[arg-type]
            for number, name in enumerate(names)
        ]
        for node in nodes:
            await node.net.start()
        friends = [node for node in nodes if node is not nodes[at]]
        await formed(friends)
        await until(
            lambda: {"cluster.net.node", "cluster.net.dialer"}
            <= {record.name for record in caplog.records if f"code={code}" in record.getMessage()},
            "said on both sides",
        )
        assert not nodes[at].net.connected()
        for node in nodes:
            await node.stop()

    with caplog.at_level(logging.WARNING):
        run(work)
    assert "a long random secret" not in caplog.text


def test_a_second_process_with_the_same_id_is_refused_while_the_first_lives(caplog: pytest.LogCaptureFixture) -> None:
    async def work(env: RealEnv) -> None:
        nodes = await mesh(env, 2)
        await formed(nodes)
        one, two = nodes
        before = list(one.story)
        # It has the id and the secret of the second node, and listens elsewhere.
        impostor = Raw(one.address)
        with pytest.raises(Exception, match="another process is connected"):
            await impostor.shake(Hello("peer", two.address, b"I" * 16, info={"boot": b"other"}))
        impostor.close()
        assert one.story == before
        assert one.is_up(two.address)
        for node in nodes:
            await node.stop()

    with caplog.at_level(logging.WARNING):
        run(work)
    assert "code=duplicate" in caplog.text


def test_a_peer_that_claims_this_nodes_own_id_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def work(env: RealEnv) -> None:
        (one,) = await mesh(env, 1)
        twin = Raw(one.address)
        with pytest.raises(Exception, match="this node's own"):
            await twin.shake(Hello("peer", one.address, b"I" * 16))
        twin.close()
        await one.stop()

    with caplog.at_level(logging.WARNING):
        run(work)
    assert "code=duplicate" in caplog.text


def test_this_node_in_its_own_list_under_another_name_is_said_and_harmless(caplog: pytest.LogCaptureFixture) -> None:
    async def work(env: RealEnv) -> None:
        name = addresses(1)[0]
        alias = name.replace("127.0.0.1", "localhost")
        node = Node(env, name, [name, alias])
        await node.net.start()
        await until(lambda: "this node's own" in caplog.text, "said")
        assert not node.net.connected()
        await node.stop()

    with caplog.at_level(logging.WARNING):
        run(work)


def test_an_unreachable_and_an_unresolvable_peer_are_said_once_and_never_in_the_way(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialer_module, "RETRY_MAX_S", dialer_module.RETRY_MIN_S)

    async def work(env: RealEnv) -> None:
        names = addresses(3)
        nobody = "no-such-host.invalid:7101"
        broken = "a..b:7101"
        nodes = [Node(env, name, [*names, nobody, broken]) for name in names[:2]]
        for node in nodes:
            await node.net.start()
        await formed(nodes)
        links = [nodes[0].net._links[peer].dialer for peer in (names[2], broken)]
        await until(lambda: all(link._misses >= 4 for link in links), "several tries")
        for peer in (names[2], broken):
            said = [record for record in caplog.records if f"peer={peer} " in record.getMessage()]
            assert 1 <= len(said) <= 2, "each node says it once"
        for node in nodes:
            await node.stop()

    with caplog.at_level(logging.INFO):
        run(work)


def test_a_peer_that_says_nothing_any_more_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_module, "PEER_UNHEARD_S", 0.3)
    monkeypatch.setattr(mesh_module, "PING_INTERVAL_S", 0.1)

    async def work(env: RealEnv) -> None:
        names = addresses(2)
        node = Node(env, names[0], names)
        await node.net.start()
        silent = Raw(node.address)
        await silent.shake(Hello("peer", names[1], b"S" * 16))
        await until(lambda: node.is_up(names[1]), "connected")
        await until(lambda: ("down", names[1]) in node.story, "closed when unheard", within_s=3)
        while await silent.read():
            pass
        silent.close()
        await node.stop()

    run(work)


def test_pings_keep_an_idle_mesh_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_module, "PEER_UNHEARD_S", 0.3)
    monkeypatch.setattr(mesh_module, "PING_INTERVAL_S", 0.1)

    async def work(env: RealEnv) -> None:
        nodes = await mesh(env, 3)
        await formed(nodes)
        began = env.clock()
        await until(lambda: env.clock() - began > 0.8, "a while")
        stories = [[entry[0] for entry in node.story] for node in nodes]
        assert stories == [["up", "up"]] * 3, "nothing delivered, nothing lost"
        for node in nodes:
            await node.stop()

    run(work)


@pytest.mark.parametrize("poison", [b"\xff\xff\xff\xff", (PEER_FRAME_MAX_BYTES + 1).to_bytes(4, "big")])
def test_a_peers_frame_over_the_limit_closes_it(poison: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def work(env: RealEnv) -> None:
        names = addresses(2)
        node = Node(env, names[0], names)
        await node.net.start()
        peer = Raw(node.address)
        await peer.shake(Hello("peer", names[1], b"S" * 16))
        await peer.send(frame(b"good") + poison)
        await until(lambda: ("down", names[1]) in node.story, "closed")
        assert node.frames(names[1]) == [b"good"]
        peer.close()
        await node.stop()

    with caplog.at_level(logging.INFO):
        run(work)
    assert f"reason=a frame of {int.from_bytes(poison, 'big')} bytes" in caplog.text


@pytest.mark.parametrize("plain", [False, True], ids=["uvloop", "asyncio"])
def test_a_peer_that_does_not_read_is_closed_at_the_limit(
    plain: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cluster.net.peer.PEER_OUTPUT_BUFFER_MAX_BYTES", 1 << 20)

    async def work(env: RealEnv) -> None:
        names = addresses(2)
        node = Node(env, names[0], names)
        await node.net.start()
        peer = Raw(node.address)
        await peer.shake(Hello("peer", names[1], b"S" * 16))
        await until(lambda: node.is_up(names[1]), "connected")
        payload = bytes(100_000)
        sent = 0
        while node.net.send(names[1], payload):
            sent += len(payload)
            assert sent < 50 << 20, "no end to it"
        await until(lambda: ("down", names[1]) in node.story, "closed")
        peer.close()
        await node.stop()

    with caplog.at_level(logging.INFO):
        run(work, plain=plain)
    assert "does not read" in caplog.text


def test_what_is_no_address_is_refused_as_a_peer() -> None:
    async def work(env: RealEnv) -> None:
        with pytest.raises(UsageError, match="no port"):
            Node(env, "127.0.0.1:7101", ["127.0.0.1"])

    run(work)


def test_an_owner_may_refuse_by_its_own_policy(caplog: pytest.LogCaptureFixture) -> None:
    async def work(env: RealEnv) -> None:
        names = addresses(2)
        one = Node(env, names[0], names, accept=lambda hello: ("member", "not today") if hello.role == "peer" else None)
        two = Node(env, names[1], names)
        await one.net.start()
        await two.net.start()
        # The policy is about callers; this node's own calls are its own decision.
        one.net._links[names[1]].dialer.rest(reached=False)
        await until(lambda: "not today" in caplog.text, "said")
        await one.stop()
        await two.stop()

    with caplog.at_level(logging.WARNING):
        run(work)
