import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

import trcore

REPOSITORY = Path(__file__).parents[3]


def find_compiler() -> str:
    """The C++ compiler, as CMake would choose it."""
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(name):
            return name
    pytest.skip("no C++ compiler")


@pytest.fixture(scope="session")
def compile_cpp(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles a source of the repository against what the installed package ships."""

    def compile_source(source: str, *, with_library: bool = False) -> Path:
        path = REPOSITORY / source
        if not path.exists():
            pytest.skip(f"{source} is not here: not a checkout of the repository")
        out = tmp_path_factory.mktemp("cpp") / path.stem
        include = trcore.get_include()
        library = [str(Path(include).parent / "lib" / "libtrcore_core.a")] if with_library else []
        libraries = ["-lrt"] if with_library and "linux" in sysconfig.get_platform() else []
        command = [find_compiler(), "-std=c++20", "-O1", "-pthread", "-I", include, str(path)]
        subprocess.run(command + library + ["-o", str(out), *libraries], check=True, timeout=120)
        return out

    return compile_source


@pytest.fixture(scope="session")
def ring_crasher(compile_cpp: Callable[..., Path]) -> Path:
    return compile_cpp("tests/cpp/ring_crasher.cpp", with_library=True)


@pytest.fixture(scope="session")
def find_cpp_compiler() -> Callable[[], str]:
    return find_compiler
