"""Runs pytest on a project of its own, with the plugin as an installed tenure has it.

Knows: entry points, pytest's command line. Must not know: what the plugin does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.house import ROOT

# What an installer writes: by it pytest finds the plugin of a checkout that is not installed.
_DIST_INFO = {
    "METADATA": "Metadata-Version: 2.1\nName: tenure-checkout\nVersion: 0\n",
    "entry_points.txt": "[pytest11]\ntenure = pytest_tenure\n",
}


def run_pytest(directory: Path, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Write ``files`` into ``directory`` and run pytest there, with warnings as errors."""
    project, site = directory / "project", directory / "site" / "tenure_checkout-0.dist-info"
    for place, contents in ((project, files), (site, _DIST_INFO)):
        place.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (place / name).write_text(text)
    path = os.pathsep.join([str(site.parent), str(ROOT / "src"), str(ROOT)])
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("TENURE_", "PYTEST"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *options],
        cwd=project,
        env={**environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
