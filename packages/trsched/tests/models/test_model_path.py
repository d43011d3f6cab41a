"""Models' files: paths, and data of installed packages found without importing them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from trsched.errors import ConfigError
from trsched.models.model_path import resolve_model_path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that breaks when it is imported, with a model in it."""
    folder = tmp_path / "model_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (folder / "tiny.gguf").write_bytes(b"GGUF")
    (folder / "more").mkdir()
    (folder / "more" / "big.gguf").write_bytes(b"GGUF")
    (tmp_path / "model_module.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def refused(path: str) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve_model_path(path, "models[3].path")
    assert caught.value.field == "models[3].path"
    return str(caught.value)


def test_plain_path(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    assert resolve_model_path(str(file), "x") == file


def test_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert resolve_model_path("~/model.gguf", "x") == tmp_path / "model.gguf"


def test_missing_file(tmp_path: Path) -> None:
    assert "no such file: /nowhere/x.gguf" in refused("/nowhere/x.gguf")
    assert "no such file" in refused(str(tmp_path)), "a folder"


def test_package_data_without_an_import(package: Path) -> None:
    assert resolve_model_path("package://model_package/tiny.gguf", "x") == package / "tiny.gguf"
    nested = resolve_model_path("package://model_package/more/big.gguf", "x")
    assert nested == package / "more" / "big.gguf"
    assert "model_package" not in sys.modules


def test_missing_package() -> None:
    said = refused("package://no_such_models/x.gguf")
    assert "'no_such_models' is not installed: pip install no-such-models" in said


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("name", ["model_package", "model_module"])
def test_package_without_the_file(name: str) -> None:
    assert f"{name!r} has no file 'other.gguf'" in refused(f"package://{name}/other.gguf")


def test_module_made_at_run_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "made_up", ModuleType("made_up"))  # without a __spec__
    assert "'made_up' is not installed" in refused("package://made_up/x.gguf")


@pytest.mark.parametrize(
    "path", ["package://", "package://name", "package://name/", "package:///x", "package://a.b/x"]
)
def test_malformed(path: str) -> None:
    assert "expected package://PACKAGE/FILE" in refused(path)
