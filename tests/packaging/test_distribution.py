"""What is in the sdist and the wheel, and that the wheel works in a fresh environment, from another directory.

Knows: archives, virtual environments. Must not know: the product's inside.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
COMPILED = [path.stem for path in sorted((ROOT / "ext" / "cluster").glob("*.pyx"))]

# Building compiles: give it time on a busy machine.
pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Built:
    sdist: Path
    wheel: Path

    def sdist_names(self) -> set[str]:
        """Paths inside the sdist, without its top directory."""
        with tarfile.open(self.sdist) as archive:
            return {name.partition("/")[2] for name in archive.getnames()}

    def wheel_names(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as archive:
            return set(archive.namelist())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist, and the wheel made from it: what is not in the sdist cannot be in the wheel."""
    directory = tmp_path_factory.mktemp("dist")
    result = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory), str(ROOT)],
        capture_output=True,
        text=True,
        cwd=directory,
        check=False,
    )
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    (sdist,) = directory.glob("*.tar.gz")
    (wheel,) = directory.glob("*.whl")
    return Built(sdist, wheel)


@pytest.fixture(scope="module")
def python(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment's interpreter, with nothing but the wheel and what it depends on.

    The dependencies come from this environment, so that the test needs no network: that the wheel names them is tested on its own.
    """
    directory = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    python = directory / "bin" / "python"
    site = directory / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    for name in ("pysyncobj", "msgpack"):
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        (site / name).symlink_to(Path(spec.origin).parent)
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(built.wheel)], check=True
    )
    return python


def run(python: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("TENURE_", "PYTHON"))}
    return subprocess.run(
        [str(python), *arguments], cwd=cwd, env=environ, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_wheel_holds_packages_stubs_markers_and_compiled_modules(built: Built) -> None:
    names = built.wheel_names()
    assert {"cluster/py.typed", "tenure/py.typed", "cluster/__main__.py", "tenure/__main__.py"} <= names
    assert "pytest_tenure.py" in names
    assert COMPILED
    for module in COMPILED:
        assert f"cluster/{module}.pyi" in names
        assert f"cluster/{module}{sysconfig.get_config_var('EXT_SUFFIX')}" in names
    # Every Python file of the checkout's packages is there: none was forgotten in a list.
    for top, prefix in ((ROOT / "cluster", "cluster"), (ROOT / "src" / "tenure", "tenure")):
        for path in top.rglob("*.py"):
            assert f"{prefix}/{path.relative_to(top).as_posix()}" in names


def test_the_wheel_holds_nothing_else(built: Built) -> None:
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    strays = {
        name
        for name in built.wheel_names()
        if not name.startswith(("cluster/", "tenure/", "tenure-", "pytest_tenure.py"))
        or name.endswith((".c", ".pyx", ".pxd", ".pxi", ".pyc"))
        or (name.endswith(".so") and not name.endswith(suffix))
    }
    assert not strays


def test_the_sdist_holds_the_sources_and_nothing_generated(built: Built) -> None:
    names = built.sdist_names()
    assert {f"ext/cluster/{module}.pyx" for module in COMPILED} <= names
    assert {
        "ext/cluster/__init__.pxd",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "tox.ini",
        "docs/protocol.md",
        "tests/support.py",
        "setup.py",
        "pyproject.toml",
    } <= names
    assert not {
        name for name in names if name.endswith((".c", ".so", ".pyc", ".new")) and not name.startswith("bench/")
    }
    assert not {name for name in names if name.startswith(("build/", "dist/", ".tox/"))}


def test_the_wheel_says_what_it_needs(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(name).decode()
        (entries,) = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        scripts = archive.read(entries).decode()
    assert "Requires-Dist: pysyncobj==0.3.17" in metadata
    assert "Requires-Dist: msgpack" in metadata
    assert "Requires-Python: >=3.10" in metadata
    assert "License-Expression: MIT" in metadata
    assert "tenure = cluster.__main__:main" in scripts
    assert "[pytest11]\ntenure = pytest_tenure" in scripts


@pytest.mark.parametrize("arguments", [["-m", "cluster"], ["-m", "tenure"]])
def test_the_installed_command_line_answers_from_anywhere(python: Path, arguments: list[str], tmp_path: Path) -> None:
    result = run(python, *arguments, "--help", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "lock" in result.stdout
    assert " ".join(["python", *arguments]) in result.stdout


def test_the_script_is_installed(python: Path, tmp_path: Path) -> None:
    script = python.with_name("tenure")
    result = subprocess.run([script, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert "usage: tenure COMMAND" in result.stdout
    version = subprocess.run(
        [script, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert version.stdout.startswith("tenure 0.")


PROGRAM = """
import tenure
with tenure.local() as coordinator:
    assert "site-packages" in tenure.__file__, tenure.__file__
    lease = coordinator.acquire("nightly", lease_time=5)
    assert coordinator.acquire("nightly", lease_time=5) is None
    lease.release()
    print(tenure.LeaderElector(coordinator).run_if_leader("nightly", lambda: "led"))
"""


def test_a_program_runs_on_the_installed_wheel(python: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    result = run(python, "program.py", cwd=tmp_path)
    assert (result.returncode, result.stdout.strip()) == (0, "led"), result.stderr
