"""The rules of the house, kept by tests: sizes, floors, homes of outside packages, what must not be committed, words.

Knows: the rules. Must not know: how files are found and read (``tests/house.py``).
"""

from __future__ import annotations

import ast
import re

import pytest

from tests.house import (
    committed_files,
    cython_function_lengths,
    cython_imports,
    files,
    function_lengths,
    imports,
    nodes,
    project_files,
    read,
    tree,
)

pytestmark = pytest.mark.fast

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
PRODUCT = ("cluster", "src")
EVERYWHERE = ("cluster", "src", "ext", "tests", "bench", "setup.py")

# Where an outside package, or a module of the standard library that touches the outside, may be imported. A name that ends with "/"
# is a directory. Everything else asks the Env for it, so that a simulation can run the same code.
TESTING = "src/tenure/testing/"
HOMES: dict[str, tuple[str, ...]] = {
    "pysyncobj": ("cluster/raft/",),
    "uvloop": ("cluster/env.py",),
    "msgpack": ("cluster/codec.py",),
    "prometheus_client": ("src/tenure/metrics.py",),
    "cronsim": ("src/tenure/_ticks.py",),
    "time": ("cluster/env.py", "cluster/cli/", TESTING),
    "secrets": (),
    "uuid": (),
    "socket": ("cluster/env.py", "cluster/sockets.py", "cluster/cli/", TESTING),
    "ssl": ("cluster/tls.py",),
    "select": ("cluster/env.py", "cluster/cli/"),
    "selectors": ("cluster/env.py",),
    "fcntl": ("cluster/descriptors.py", "cluster/env.py"),
    "mmap": (),
    "shutil": ("cluster/cli/",),
    "tempfile": ("cluster/cli/",),
    "subprocess": ("cluster/cli/", TESTING),
    "signal": ("cluster/cli/", TESTING),
    "multiprocessing": (),
    "datetime": ("src/tenure/", "cluster/client/"),
    "os": ("cluster/descriptors.py", "cluster/directories.py", "cluster/env.py", "cluster/sockets.py", "cluster/cli/", TESTING),
    "pathlib": ("cluster/cli/", TESTING),
    "urllib": (),
    "http": (),
}
UNPICKLERS = frozenset({"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve"})


def at_home(file: str, homes: tuple[str, ...]) -> bool:
    return any(file == home or (home.endswith("/") and file.startswith(home)) for home in homes)


def test_no_file_is_longer_than_its_limit() -> None:
    too_long = {
        name: length
        for name in files(*EVERYWHERE, suffixes=(".py", ".pyi", ".pyx", ".pxd", ".pxi"))
        if (length := read(name).count("\n")) > FILE_LINES_MAX
    }
    assert not too_long, f"over {FILE_LINES_MAX} lines; split by decision: {too_long}"


def test_no_function_is_longer_than_its_limit() -> None:
    lengths = [(name, *entry) for name in files(*EVERYWHERE) for entry in function_lengths(name)]
    lengths += [(name, *entry) for name in files("ext", suffixes=(".pyx",)) for entry in cython_function_lengths(name)]
    assert lengths
    too_long = [
        f"{name}:{line} {function}: {size}" for name, function, line, size in lengths if size > FUNCTION_LINES_MAX
    ]
    assert not too_long, f"over {FUNCTION_LINES_MAX} lines: {too_long}"


def test_imports_go_down_only() -> None:
    upward = [
        f"{found.file}:{found.line} imports {found.module}"
        for name in files("cluster")
        for found in imports(name)
        if found.module.split(".")[0] in ("tenure", "tests", "bench")
    ]
    upward += [
        f"{name} imports {module}"
        for name in files("ext", suffixes=(".pyx", ".pxd", ".pxi"))
        for module, is_cimport in cython_imports(name)
        if module.split(".")[0] in ("tenure", "cluster") and not is_cimport
    ]
    assert not upward, upward


def test_the_product_imports_nothing_of_the_tests() -> None:
    wrong = [
        f"{found.file}:{found.line} imports {found.module}"
        for name in files("src")
        for found in imports(name)
        if found.module.split(".")[0] in ("tests", "bench", "pytest", "hypothesis")
        and not (name == "src/pytest_tenure.py" and found.module == "pytest")
    ]
    assert not wrong, wrong


def test_outside_packages_stay_in_their_homes() -> None:
    strays = [
        f"{found.file}:{found.line} imports {found.module}"
        for name in files(*PRODUCT)
        for found in imports(name)
        if (homes := HOMES.get(found.module.split(".")[0])) is not None
        and not at_home(name, homes)
        and not found.for_types
    ]
    assert not strays, f"ask the Env, or argue in HOMES: {strays}"


def test_only_the_env_and_the_command_line_open_files() -> None:
    opened = [
        f"{name}:{node.lineno}"
        for name in files(*PRODUCT)
        if not at_home(name, ("cluster/env.py", "cluster/cli/", "cluster/tls.py"))
        for node in nodes(name)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "input", "print")
    ]
    assert not opened, opened


def test_random_numbers_come_from_the_env() -> None:
    """Passing a source on is fine, ``random.Random`` as a type too; making one, or drawing from the module's own, is not."""
    drawn = [
        f"{name}:{node.lineno} {ast.unparse(node.func)}"
        for name in files(*PRODUCT)
        if name != "cluster/env.py"
        for node in nodes(name)
        if isinstance(node, ast.Call) and re.match(r"random\.|Random$|SystemRandom$", ast.unparse(node.func))
    ]
    assert not drawn, drawn


def test_the_compiled_floor_has_no_clock_no_io_no_logging() -> None:
    forbidden = {"time", "random", "socket", "os", "threading", "logging", "asyncio", "datetime"}
    wrong = [
        f"{name}: {module}"
        for name in files("ext", suffixes=(".pyx", ".pxd", ".pxi"))
        for module, _ in cython_imports(name)
        if module.split(".")[0] in forbidden or module.startswith(("posix", "libc.time"))
    ]
    assert not wrong, wrong


def test_nothing_is_ever_unpickled() -> None:
    wrong = [
        f"{found.file}:{found.line} imports {found.module}"
        for name in files(*PRODUCT, "bench")
        for found in imports(name)
        if found.module.split(".")[0] in UNPICKLERS
    ]
    wrong += [
        f"{name} imports {module}"
        for name in files("ext", suffixes=(".pyx",))
        for module, _ in cython_imports(name)
        if module.split(".")[0] in UNPICKLERS
    ]
    assert not wrong, wrong


def test_macs_are_made_in_one_place_and_compared_in_constant_time_only() -> None:
    handshake = "cluster/net/handshake.py"
    assert [name for name in files(*PRODUCT) for found in imports(name) if found.module == "hmac"] == [handshake]
    calls = [node for node in nodes(handshake) if isinstance(node, ast.Call)]
    constant = [each for each in calls if ast.unparse(each.func) == "hmac.compare_digest"]
    received = {ast.unparse(each.args[0]) for each in constant}
    assert received == {"proof", "mac"}
    assert all(ast.unparse(each.args[1]).startswith("prove(") for each in constant)
    compared = [
        f"{handshake}:{node.lineno}: {ast.unparse(node)}"
        for node in nodes(handshake)
        if isinstance(node, ast.Compare)
        for text in map(ast.unparse, [node.left, *node.comparators])
        if text in received or "prove(" in text
    ]
    assert not compared, compared


def test_every_module_says_what_it_knows() -> None:
    silent = [
        name
        for name in files(*PRODUCT)
        if not name.endswith("__init__.py")
        and not re.search(r"Knows:.*Must not know:", ast.get_docstring(tree(name)) or "", re.DOTALL)
    ]
    assert not silent, f"no 'Knows: … Must not know: …' in the docstring of {silent}"


def test_every_module_with_functions_postpones_annotations() -> None:
    missing = [
        name
        for name in files(*PRODUCT)
        if any(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in nodes(name))
        and not any(found.module == "__future__" for found in imports(name))
    ]
    assert not missing, missing


def test_nothing_generated_is_committed() -> None:
    generated = re.compile(
        r"\.(c|cpp|o|so|dylib|pyd|pyc|html|egg|whl|gz|log)$|(^|/)(__pycache__|build|dist|\.tox|\.hypothesis|\.benchmarks|[^/]+\.egg-info)/"
    )
    assert committed_files()
    found = [name for name in committed_files() if generated.search(name) and not re.fullmatch(r"bench/\w+\.c", name)]
    assert not found, found


# Written in pieces, so that this file does not find itself.
MACHINE = re.compile(
    "|".join(["/wor" + "k/", "/roo" + "t/", "/hom" + "e/", "/tmp/" + "venv", "/share" + "d/", r"\.libr" + "ary"])
)
REGISTRY = re.compile(
    "|".join(["pypi" + r"\.org", "pythonhosted" + r"\.org", "debian" + r"\.org", "npm" + "js"]), re.IGNORECASE
)
UNFINISHED = re.compile(
    "|".join(
        [r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bXX" + r"X\b", "NotImplemented" + "Error", "except Exception: *pass"]
    )
)


def _lines_with(pattern: re.Pattern[str], names: list[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name in names
        for number, line in enumerate(read(name).splitlines(), 1)
        if pattern.search(line)
    ]


def _texts() -> list[str]:
    return [name for name in project_files() if not name.endswith((".png", ".svg"))]


def test_no_word_names_a_machine_or_a_registry() -> None:
    assert not _lines_with(MACHINE, _texts())
    assert not _lines_with(REGISTRY, _texts())


def test_nothing_is_left_unfinished() -> None:
    assert not _lines_with(UNFINISHED, files(*EVERYWHERE, suffixes=(".py", ".pyx", ".pyi")))


def test_no_test_sleeps_to_wait_for_a_state() -> None:
    sleeping = re.compile(r"\btime\.sle" + r"ep\(|\basyncio\.sle" + r"ep\((?!0\))")
    # Helpers that poll, programs whose "work" is to sleep, and a simulation's own network, which sleeps in virtual time.
    allowed = re.compile(r"tests/(support\w*|sim/\w+|\w+/(support|worker|program)\w*)\.py")
    assert not [line for line in _lines_with(sleeping, files("tests")) if not allowed.match(line)]


def test_a_suppression_names_what_it_suppresses() -> None:
    blanket = re.compile(r"#\s*(type:\s*ignore(?!\[)|no" + r"qa(?!: ))")
    assert not _lines_with(blanket, files(*EVERYWHERE))
