"""Builds the Cython hot path of ``ext/`` into the package ``cluster``.

The mirror tree ``ext/cluster`` with ``include_path=["ext"]`` lets the modules cimport each other by the names that they have
once installed. Everything else about the distribution is in ``pyproject.toml``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
SOURCES = sorted((ROOT / "ext" / "cluster").glob("*.pyx"))


class BuildExt(build_ext):
    """Builds as usual and leaves a copy beside the sources.

    ``python -m cluster`` in a checkout imports the package from the working directory, not the installed one; without the
    compiled modules beside it, the README's first command would fail on a fresh clone.
    """

    def run(self) -> None:
        super().run()
        if self.inplace:
            return
        for extension in self.extensions:
            built = Path(self.get_ext_fullpath(extension.name))
            try:
                # Under another name first: a process that has the old one loaded keeps it.
                beside = ROOT / "cluster" / built.name
                shutil.copy2(built, beside.with_suffix(".new"))
                beside.with_suffix(".new").replace(beside)
            except OSError as error:
                self.warn(f"no copy of {built.name} in the checkout: {error}")


setup(
    packages=[*find_packages("src"), *find_packages(include=["cluster", "cluster.*"])],
    py_modules=["pytest_tenure"],
    package_dir={"": "src", "cluster": "cluster"},
    package_data={"tenure": ["py.typed"], "cluster": ["py.typed", "*.pyi"]},
    ext_modules=cythonize(
        [
            Extension(f"cluster.{source.stem}", [str(source.relative_to(ROOT))], extra_compile_args=["-O3"])
            for source in SOURCES
        ],
        include_path=["ext"],
        build_dir="build/cython",
        compiler_directives={"language_level": "3", "boundscheck": False, "wraparound": False, "cdivision": True},
    ),
    cmdclass={"build_ext": BuildExt},
)
