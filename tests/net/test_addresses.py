"""Which addresses a node may use: nobody is exposed by accident, nobody advertises what cannot be dialed."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.address import Address
from cluster.errors import UsageError
from cluster.net import check_exposure, choose_advertise
from cluster.secrets import Secrets

pytestmark = pytest.mark.fast

NONE = Secrets.of(None)
LOOPBACK = Address.parse("127.0.0.1:7101")
SOCKET = Address.parse("unix:/run/tenure.sock")
OPEN = Address.parse("0.0.0.0:7101")
LAN = Address.parse("10.0.0.5:7101")


def test_this_machine_alone_needs_no_secret() -> None:
    check_exposure(LOOPBACK, NONE, None, False)
    check_exposure([LOOPBACK, SOCKET], NONE, None, False)
    check_exposure(Address.parse("[::1]:7101"), NONE, None, False)


@pytest.mark.parametrize("listen", [OPEN, LAN, [SOCKET, LAN], Address.parse("[::]:7101"), Address.parse("db1:7101")])
def test_a_network_needs_a_secret_or_tls_or_a_word(listen: Address | list[Address]) -> None:
    with pytest.raises(UsageError, match="no secret") as caught:
        check_exposure(listen, NONE, None, False)
    assert "--insecure" in caught.value.hint
    check_exposure(listen, Secrets.of("secret"), None, False)
    check_exposure(listen, NONE, object(), False)
    check_exposure(listen, NONE, None, True)


@pytest.mark.parametrize("listen", [OPEN, Address.parse("[::]:7101")])
def test_every_address_cannot_be_advertised(listen: Address) -> None:
    with pytest.raises(UsageError, match="nobody can dial") as caught:
        choose_advertise(listen, None)
    assert "--advertise" in caught.value.hint
    assert choose_advertise(listen, LAN) == LAN
    with pytest.raises(UsageError, match="nobody can dial"):
        choose_advertise(LAN, listen)


def test_the_first_address_is_advertised_unless_another_is_said() -> None:
    assert choose_advertise([LAN, SOCKET], None) == LAN
    assert choose_advertise(LOOPBACK, LAN) == LAN
    with pytest.raises(UsageError, match="listen somewhere"):
        choose_advertise([], None)


@pytest.mark.parametrize(
    "text", ["unix:/tmp/a\0b", "a\0b:7101", "unix:/tmp/\ud800", "\ud800:7101", None, 7101, b"127.0.0.1:7101"]
)
def test_what_no_address_can_be_is_refused_where_it_is_written(text: Any) -> None:
    with pytest.raises(UsageError, match="listen"):
        Address.parse(text, what="listen")
