"""What every test may rely on, however the run was started.

A shell that starts a job in the background has it ignore SIGINT and SIGQUIT, and Python then never raises KeyboardInterrupt, nor do the
processes that it starts; ``lock`` leaves ignored what it finds ignored. Tests of signals must not depend on that.
"""

from __future__ import annotations

import signal

import pytest

import pytest_tenure

# Real raft groups under the whole contract, and the scenarios of "no two at the same time": these run on every Python.
CORE = ("tests/contract/", "tests/system/")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """The product's own plugin, in a checkout that is not installed too."""
    if not config.pluginmanager.has_plugin("tenure"):
        config.pluginmanager.register(pytest_tenure, "tenure")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(CORE):
            item.add_marker("core")
