"""Certificates for tests, made in the test run: authorities, and what they sign.

Knows: the files that TLS wants. Must not know: what a test wants to show.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import trustme

from cluster.tls import Tls

HOST = "127.0.0.1"


class Authority:
    """One authority, its files under a directory."""

    def __init__(self, directory: Path, name: str = "ours") -> None:
        self._directory = directory
        self._name = name
        self._authority = trustme.CA()
        self.ca = directory / f"{name}-ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)

    def issue(self, name: str, *hosts: str, ends_in: timedelta = timedelta(hours=1), ca: Path | None = None) -> Tls:
        """A certificate that names ``hosts``, or as a client's nothing that can be dialled; ``ca``: whom its owner believes."""
        now = datetime.now(timezone.utc)
        leaf = self._authority.issue_cert(
            *(hosts or (f"{name}.client.invalid",)), not_before=now - timedelta(days=2), not_after=now + ends_in
        )
        cert, key = self._directory / f"{self._name}-{name}.pem", self._directory / f"{self._name}-{name}.key"
        for number, blob in enumerate(leaf.cert_chain_pems):
            blob.write_to_path(cert, append=number > 0)
        leaf.private_key_pem.write_to_path(key)
        return Tls(str(cert), str(key), str(ca or self.ca))


def options(tls: Tls) -> list[str]:
    """The same for the command line."""
    return ["--tls-cert", tls.cert, "--tls-key", tls.key, "--tls-ca", tls.ca]
