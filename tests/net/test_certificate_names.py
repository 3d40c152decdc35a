"""Whom a certificate names: by which of its names, by wildcard, by address.

Knows: the names of a certificate. Must not know: connections.
"""

from __future__ import annotations

import pytest

from cluster.tls import _matches

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("kind", "value", "host", "is_it"),
    [
        ("DNS", "Node-1.Example", "node-1.example", True),
        ("DNS", "*.example", "node-1.example", True),
        ("DNS", "*.example", "a.b.example", False),
        ("DNS", "*.example", "example", False),
        ("DNS", "127.0.0.1", "127.0.0.1", True),
        ("IP Address", "::1", "0:0::1", True),
        ("IP Address", "10.0.0.1", "10.0.0.10", False),
        ("IP Address", "10.0.0.1", "node-1", False),
        ("email", "node-1", "node-1", False),
    ],
)
def test_whom_a_certificate_names(kind: str, value: str, host: str, is_it: bool) -> None:
    assert _matches(kind, value, host) is is_it
