"""Where a node may listen, and under which address the others reach it.

Knows: addresses and the rules about them. Must not know: sockets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cluster.address import Address
from cluster.errors import UsageError
from cluster.secrets import Secrets

_ANY_HOSTS: Final = frozenset(("0.0.0.0", "::", "*"))


def listen_addresses(listen: Address | Iterable[Address]) -> tuple[Address, ...]:
    """One or several addresses, as a tuple without repetitions. Raises UsageError for none."""
    addresses = (listen,) if isinstance(listen, Address) else tuple(dict.fromkeys(listen))
    if not addresses:
        raise UsageError("a node must listen somewhere", "give it an address")
    return addresses


def choose_advertise(listen: Address | Iterable[Address], advertise: Address | None) -> Address:
    """The address under which others reach a node: ``advertise``, or else the first one it listens on.

    Raises:
        UsageError: when nobody can dial that address.
    """
    chosen = listen_addresses(listen)[0] if advertise is None else advertise
    if chosen.host in _ANY_HOSTS:
        raise UsageError(
            f"{chosen} means every address of this machine, and nobody can dial that",
            "say with advertise (--advertise host:port) under which address the others reach this node",
        )
    return chosen


def check_exposure(listen: Address | Iterable[Address], secrets: Secrets, tls: object | None, insecure: bool) -> None:
    """Refuse to be open to a network without a way to tell friends from strangers.

    Raises:
        UsageError: when an address can be reached from other machines, and there is neither a secret nor TLS, and nobody
            said ``insecure``.
    """
    if secrets or tls is not None or insecure:
        return
    for address in listen_addresses(listen):
        if not address.is_loopback:
            raise UsageError(
                f"{address} can be reached from other machines, and there is no secret and no TLS: anybody could take part",
                "give all nodes and clients the same secret (--secret-file) or TLS (--tls-cert, --tls-key, --tls-ca), "
                "listen on a loopback address, or say --insecure",
            )
