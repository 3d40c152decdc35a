"""The handshake without I/O: who is let in, who is refused and told why, and that nothing old or reflected is of use."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.codec import pack, unpack
from cluster.errors import AuthenticationError, CoordinationError, ProtocolError, UsageError
from cluster.limits import HANDSHAKE_MAX_BYTES
from cluster.net.handshake import (
    NONCE_BYTES,
    AcceptorHandshake,
    DialerHandshake,
    Refused,
    hello_fields,
    prove,
    transcript,
)
from cluster.ports import Hello, Welcome
from cluster.secrets import Secret, Secrets
from tests.net.support import quick

pytestmark = pytest.mark.fast

SECRET = b"a long random secret"
NODE = Hello("peer", "10.0.0.2:7101", b"N" * 16, b"C" * 16, {"peers": ["10.0.0.1:7101"], "blank": False})
CLIENT = Hello("client", "web-1:4711", b"K" * 16)
PEER = Hello("peer", "10.0.0.1:7101", b"P" * 16, b"C" * 16, {"blank": True})
STRANGER = Hello("client", "web-2:1", b"K" * 16, b"D" * 16)
TWIN = Hello("peer", NODE.node_id, b"Z" * 16)
HIGHER_PEER = Hello("peer", "10.0.0.3:7101", b"Q" * 16, b"C" * 16)


def nonce(number: int) -> bytes:
    return number.to_bytes(NONCE_BYTES, "big")


def dialer(hello: Hello = CLIENT, secret: bytes | None = SECRET, number: int = 1, **more: Any) -> DialerHandshake:
    return DialerHandshake(hello, secret, nonce(number), **more)


def acceptor(
    own: Hello = NODE, secret: Secret = SECRET, number: int = 2, refuse: Refused | None = None
) -> AcceptorHandshake:
    welcome = Welcome(own.node_id, own.cluster_id, 7, "10.0.0.9:1")
    return AcceptorHandshake(own, Secrets.of(secret), nonce(number), lambda hello: refuse, lambda hello: welcome)


def shake(one: DialerHandshake, two: AcceptorHandshake) -> list[bytes]:
    """Carry messages to and fro until both sides are done; the payloads, in order. What a side raises comes out."""
    carried = [one.start()]
    while not one.done:
        answer = two.receive(carried[-1])
        assert answer is not None
        carried.append(answer)
        reply = one.receive(answer)
        if reply is not None:
            carried.append(reply)
    return carried


def refusals(one: DialerHandshake, two: AcceptorHandshake) -> tuple[Refused, Refused]:
    """What the dialer and the acceptor end with, the refusal of one having been carried to the other."""
    sides, payload, turn = (two, one), one.start(), 0
    while True:
        try:
            payload = sides[turn].receive(payload) or b""
        except Refused as refused:
            with pytest.raises(Refused) as heard:
                sides[1 - turn].receive(refused.farewell or b"")
            assert heard.value.farewell is None, "a refusal is not answered"
            return (heard.value, refused) if turn == 0 else (refused, heard.value)
        turn = 1 - turn


# Letting in.


@pytest.mark.parametrize("secret", [SECRET, None])
@pytest.mark.parametrize("hello", [CLIENT, Hello("admin", "ops", b"A" * 16), HIGHER_PEER])
def test_both_sides_learn_who_the_other_is(hello: Hello, secret: bytes | None) -> None:
    one, two = dialer(hello, secret), acceptor(secret=secret)
    shake(one, two)
    assert one.done
    assert two.done
    assert two.other == hello
    assert one.other == NODE
    assert one.welcome == Welcome(NODE.node_id, NODE.cluster_id, 7, "10.0.0.9:1")


def test_a_lower_peer_must_commit_before_it_counts() -> None:
    one, two = dialer(PEER), acceptor()
    shake(one, two)
    assert one.done
    assert not two.done
    assert two.receive(b"") is None
    assert two.done


def test_a_commit_that_is_not_one_is_refused() -> None:
    one, two = dialer(PEER), acceptor()
    shake(one, two)
    with pytest.raises(Refused, match="commit"):
        two.receive(pack([1]))


@pytest.mark.parametrize("known", [(b"", b"C" * 16), (b"C" * 16, b""), (b"", b"")])
def test_a_cluster_id_that_one_side_does_not_know_yet_is_no_obstacle(known: tuple[bytes, bytes]) -> None:
    one = dialer(Hello("client", "c", b"K" * 16, known[0]))
    two = acceptor(Hello("peer", NODE.node_id, b"N" * 16, known[1]))
    shake(one, two)
    assert one.done
    assert two.done


# Refusing, with the same reason on both sides.


@pytest.mark.parametrize(
    ("one", "two", "code", "text", "kind"),
    [
        ({"secret": None}, {}, "dialer-lacks-secret", "web-1:4711 has none", AuthenticationError),
        ({}, {"secret": None}, "acceptor-lacks-secret", "node 10.0.0.2:7101 has none", AuthenticationError),
        ({"secret": b"other"}, {}, "secret", "different secrets", AuthenticationError),
        ({"hello": STRANGER}, {}, "cluster", "different clusters", AuthenticationError),
        ({"expect": "10.0.0.9:1"}, {}, "identity", "says that it is 10.0.0.2:7101", AuthenticationError),
        ({"hello": TWIN}, {}, "duplicate", "this node's own", AuthenticationError),
        ({"hello": PEER}, {"refuse": Refused("member", "not a peer")}, "member", "not a peer", AuthenticationError),
        ({}, {"refuse": Refused("busy", "10 connections")}, "busy", "10 connections", ProtocolError),
    ],
)
def test_a_refusal_is_the_same_on_both_sides(
    one: dict[str, Any], two: dict[str, Any], code: str, text: str, kind: type[CoordinationError]
) -> None:
    calling, called = dialer(**one), acceptor(**two)
    near, far = refusals(calling, called)
    assert near.code == far.code == code
    assert near.text == far.text
    assert text in near.text
    assert not calling.done
    assert not called.done
    for refused in (near, far):
        error = refused.error()
        assert type(error) is kind
        assert error.hint
        assert error.applied == "no"
        assert SECRET.decode() not in str(error)


def test_a_dialer_sends_no_proof_to_another_cluster() -> None:
    one, two = dialer(STRANGER), acceptor()
    challenge = two.receive(one.start())
    with pytest.raises(Refused, match="different clusters"):
        one.receive(challenge or b"")


def test_an_acceptor_refuses_another_cluster_even_if_the_dialer_does_not_mind() -> None:
    two = acceptor()
    hello = hello_fields(STRANGER, nonce(1))
    challenge = unpack(two.receive(pack(hello)) or b"")
    mac = prove(SECRET, b"tenure handshake 1: dialer\0", transcript(hello, challenge))
    with pytest.raises(Refused, match="different clusters"):
        two.receive(pack([mac]))


def test_the_bytes_are_those_of_the_document() -> None:
    """Built by hand from docs/protocol.md, without the product's own functions."""
    two = acceptor()
    hello = ["tenure", 1, "client", b"", "web-1:4711", b"K" * 16, nonce(1), {}]
    challenge = unpack(two.receive(pack(hello)) or b"")
    node_id, cluster_id, incarnation, their_nonce, proof, info = challenge
    assert (node_id, cluster_id, incarnation, their_nonce) == (NODE.node_id, b"C" * 16, b"N" * 16, nonce(2))
    shared = pack([hello, [node_id, cluster_id, incarnation, their_nonce, info]])
    assert proof == hmac.new(SECRET, b"tenure handshake 1: acceptor\0" + shared, hashlib.sha256).digest()
    mac = hmac.new(SECRET, b"tenure handshake 1: dialer\0" + shared, hashlib.sha256).digest()
    assert unpack(two.receive(pack([mac])) or b"") == [0, 7, "10.0.0.9:1"]
    assert two.done


def test_a_client_may_have_the_text_of_a_node_as_its_name() -> None:
    shake(dialer(Hello("client", NODE.node_id, b"Z" * 16)), acceptor())


def test_another_version_is_told_apart_before_anything_else() -> None:
    future = pack(["tenure", 2, {"whatever": "comes"}])
    with pytest.raises(Refused, match="version '2'") as caught:
        acceptor().receive(future)
    assert caught.value.code == "version"
    assert isinstance(caught.value.error(), ProtocolError)


def test_an_unknown_role_is_refused() -> None:
    hello = unpack(dialer().start())
    hello[2] = "root"
    with pytest.raises(Refused, match="role"):
        acceptor().receive(pack(hello))


# Nothing old, nothing reflected, nothing changed on the way.


def test_a_recorded_handshake_is_of_no_use_against_an_acceptor() -> None:
    recorded = shake(dialer(HIGHER_PEER), acceptor(number=2))
    victim = acceptor(number=3)
    victim.receive(recorded[0])
    with pytest.raises(Refused, match="different secrets"):
        victim.receive(recorded[2])
    assert not victim.done


def test_a_recorded_challenge_is_of_no_use_against_a_dialer() -> None:
    recorded = shake(dialer(number=1), acceptor())
    with pytest.raises(Refused, match="different secrets"):
        dialer(number=4).receive(recorded[1])


def test_a_dialer_does_not_answer_its_own_proof() -> None:
    one = dialer(HIGHER_PEER)
    challenge = unpack(acceptor(secret=b"unknown to the attacker").receive(one.start()) or b"")
    # The attacker has no secret; it opens a connection to the victim and hands back what the victim says.
    victim = acceptor(HIGHER_PEER, number=5)
    theirs = unpack(victim.receive(pack(["tenure", 1, "client", b"", "x", b"X" * 16, nonce(1), {}])) or b"")
    challenge[4] = theirs[4]
    with pytest.raises(Refused, match="different secrets"):
        one.receive(pack(challenge))


def test_an_acceptors_proof_is_not_a_dialers() -> None:
    two = acceptor()
    challenge = unpack(two.receive(dialer().start()) or b"")
    with pytest.raises(Refused, match="different secrets"):
        two.receive(pack([challenge[4]]))


@pytest.mark.parametrize("field", range(2, 8))
def test_a_hello_changed_on_the_way_is_found(field: int) -> None:
    one, two = dialer(Hello("client", "c", b"K" * 16, b"C" * 16, {"a": 1})), acceptor()
    hello = unpack(one.start())
    hello[field] = {2: "admin", 3: b"", 4: "d", 5: b"L" * 16, 6: nonce(9), 7: {"a": 2}}[field]
    challenge = two.receive(pack(hello))
    assert challenge is not None
    with pytest.raises(Refused, match="different secrets"):
        one.receive(challenge)


@pytest.mark.parametrize("field", [0, 1, 2, 3, 5])
def test_a_challenge_changed_on_the_way_is_found(field: int) -> None:
    one, two = dialer(), acceptor()
    challenge = unpack(two.receive(one.start()) or b"")
    challenge[field] = {0: "n", 1: b"", 2: b"M" * 16, 3: nonce(9), 5: {}}[field]
    with pytest.raises(Refused, match="different secrets"):
        one.receive(pack(challenge))


def test_nothing_that_is_sent_contains_the_secret() -> None:
    assert not [payload for payload in shake(dialer(), acceptor()) if SECRET in payload]


def test_equal_handshakes_differ_by_their_nonces_alone() -> None:
    first = shake(dialer(number=1), acceptor(number=2))
    second = shake(dialer(number=1), acceptor(number=3))
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert first[2] != second[2]


# Garbage, at each step.


garbage = st.binary(max_size=300) | st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**64 - 1) | st.text(max_size=9) | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
).map(pack)


@quick
@given(garbage, st.integers(0, 2))
def test_an_acceptor_refuses_garbage_and_nothing_else_happens(payload: bytes, step: int) -> None:
    one, two = dialer(PEER), acceptor()
    messages = [one.start()]
    if step >= 1:
        messages.append(one.receive(two.receive(messages[0]) or b"") or b"")
    if step >= 2:
        one.receive(two.receive(messages[1]) or b"")
        if payload == b"":
            return
    with pytest.raises(Refused):
        two.receive(payload)
    assert not two.done


@quick
@given(garbage, st.integers(0, 1))
def test_a_dialer_refuses_garbage_and_nothing_else_happens(payload: bytes, step: int) -> None:
    one, two = dialer(), acceptor()
    if step == 1:
        one.receive(two.receive(one.start()) or b"")
        value = unpack(payload) if _readable(payload) else None
        if isinstance(value, list) and len(value) == 3 and value[0] == 0:
            return
    with pytest.raises(Refused):
        one.receive(payload)
    assert not one.done


def _readable(payload: bytes) -> bool:
    try:
        unpack(payload)
    except ValueError:
        return False
    return True


@quick
@given(st.integers(0, 3), st.integers(1, 200))
def test_a_truncated_message_is_refused(step: int, missing: int) -> None:
    whole = shake(dialer(HIGHER_PEER), acceptor())
    cut = whole[step][: max(0, len(whole[step]) - missing)]
    one, two = dialer(HIGHER_PEER), acceptor()
    for payload in whole[:step]:
        (two if whole.index(payload) % 2 == 0 else one).receive(payload)
    with pytest.raises(Refused):
        (two if step % 2 == 0 else one).receive(cut)


@quick
@given(st.integers(0, 7), garbage)
def test_a_hello_with_one_wrong_field_is_refused_or_wrong_in_proof(field: int, payload: bytes) -> None:
    one, two = dialer(), acceptor()
    hello = unpack(one.start())
    value = unpack(payload) if _readable(payload) else payload
    if hello[field] == value:
        return
    hello[field] = value
    try:
        challenge = two.receive(pack(hello))
    except Refused:
        return
    with pytest.raises(Refused):
        one.receive(challenge or b"")


def test_the_text_of_a_stranger_cannot_break_a_log_line() -> None:
    with pytest.raises(Refused) as caught:
        acceptor().receive(pack(["error", "secret", "a\nb\x1b[31m" + "x" * 5000]))
    assert caught.value.text.isprintable()
    assert len(caught.value.text) <= 300


def test_an_unknown_code_is_a_protocol_error() -> None:
    with pytest.raises(Refused) as caught:
        dialer().receive(pack(["error", "new-in-version-9", "no"]))
    assert isinstance(caught.value.error(), ProtocolError)


# This side's own mistakes.


@pytest.mark.parametrize(
    "hello",
    [
        Hello("root", "a", b"I" * 16),
        Hello("client", "a", b"short"),
        Hello("client", "a" * 256, b"I" * 16),
        Hello("client", "a\nb", b"I" * 16),
        Hello("peer", "", b"I" * 16),
        Hello("client", "a", b"I" * 16, b"short"),
        Hello("client", "a", b"I" * 16, info={"much": b"x" * HANDSHAKE_MAX_BYTES}),
    ],
)
def test_an_own_hello_that_breaks_the_rules_is_a_usage_error(hello: Hello) -> None:
    with pytest.raises(UsageError):
        dialer(hello)
    with pytest.raises(UsageError):
        acceptor(hello)


def test_an_empty_secret_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="empty"):
        dialer(secret=b"")
    with pytest.raises(UsageError, match="empty"):
        acceptor(secret=b"")
