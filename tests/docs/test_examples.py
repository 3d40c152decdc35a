"""The programs of README run as they stand; only their ports are moved to free ones.

Knows: README's programs and what each must print. Must not know: how they do it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.support_cli import environ
from tests.docs.markdown import examples, markdown_files
from tests.support import eventually
from tests.support_cluster import NodeGroup, free_ports

EXAMPLES = examples("README.md")


def at_ports(text: str, ports: list[int]) -> str:
    """The program with 7101, 7102 and 7103 replaced."""
    for documented, free in zip((7101, 7102, 7103), ports, strict=True):
        text = text.replace(str(documented), str(free))
    return text


def ports_of(group: NodeGroup) -> list[int]:
    return [int(node.address.rpartition(":")[2]) for node in group.nodes]


def test_every_example_is_run_here() -> None:
    assert set(EXAMPLES) == {"client", "asyncio", "embedded"}
    elsewhere = {Path(name).stem.replace("_", "-") for name in markdown_files() if examples(name)} - {"README"}
    tested = {path.stem.removeprefix("test_").replace("_", "-") for path in Path(__file__).parent.glob("test_*.py")}
    assert elsewhere <= tested, "each page with examples has a test_….py of its own"
    assert {"electors", "fencing", "security"} <= elsewhere


def run_example(name: str, ports: list[int], directory: Path) -> str:
    path = directory / f"example_{name}.py"
    path.write_text(at_ports(EXAMPLES[name], ports))
    result = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=directory,
        env=environ(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    return result.stdout


def test_the_client_and_the_asyncio_program(tenure_group: NodeGroup, tmp_path: Path) -> None:
    ports = ports_of(tenure_group)
    first, second = (run_example("client", ports, tmp_path) for _ in range(2))
    report = run_example("asyncio", ports, tmp_path)
    assert first.startswith("I lead with token ")
    tokens = [int(text.rpartition(" ")[2]) for text in (first, second, report)]
    assert tokens == sorted(set(tokens)), "tokens rise from one program to the next"
    assert report.startswith("report of monday, written under token ")


def test_three_embedded_programs_lead_by_turns(tmp_path: Path) -> None:
    ports = free_ports(3)
    program = tmp_path / "embedded.py"
    program.write_text(at_ports(EXAMPLES["embedded"], ports))
    outputs = [tmp_path / f"{port}.out" for port in ports]
    processes = []
    try:
        for port, output in zip(ports, outputs, strict=True):
            with output.open("wb") as file:
                processes.append(
                    subprocess.Popen(
                        [sys.executable, str(program), str(port)],
                        cwd=tmp_path,
                        env=environ(),
                        stdin=subprocess.DEVNULL,
                        stdout=file,
                        stderr=subprocess.STDOUT,
                    )
                )
        eventually(
            lambda: all("report written" in output.read_text() for output in outputs) or _any_ended(processes),
            30.0,
            "each of the three wrote a report",
        )
        texts = [output.read_text() for output in outputs]
        assert not _any_ended(processes), texts
        assert set("\n".join(texts).split("\n")) <= {"report written", "left to another", ""}
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, 9)
                process.wait()


def _any_ended(processes: list[subprocess.Popen[bytes]]) -> bool:
    return any(process.poll() is not None for process in processes)
