"""A GGUF in another format: made once, kept, refused with a reason."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from trsched.errors import ConfigError
from trsched.models.model_path import resolve_model_path
from trsched.models.requantize import QuantizeError, cached_requantize, requantize

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")


@pytest.fixture
def small() -> Path:
    try:
        return resolve_model_path("package://trserve/models/smollm2-slm8.IQ4_NL.gguf", "path")
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("ftype", ["Q8_0", "IQ4_NL"])
def test_made_once_and_found_again(small: Path, tmp_path: Path, ftype: str) -> None:
    first = cached_requantize(small, ftype, tmp_path)
    made = first.stat()
    assert first.read_bytes()[:4] == b"GGUF"
    again = cached_requantize(small, ftype, tmp_path)
    assert again == first
    assert again.stat().st_mtime_ns == made.st_mtime_ns
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".part"] == []


def test_two_at_once_make_one_file(small: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.gguf"
    errors: list[Exception] = []

    def make() -> None:
        try:
            requantize(small, target, "Q8_0", threads=1)
        except QuantizeError as error:
            errors.append(error)

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [file.name for file in tmp_path.iterdir()] == ["out.gguf"]


def test_refusals(small: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.gguf"
    with pytest.raises(QuantizeError, match="Q9_9"):
        requantize(small, target, "Q9_9", threads=1)
    with pytest.raises(QuantizeError, match="cannot read"):
        requantize(tmp_path / "none.gguf", target, "Q8_0", threads=1)
    garbage = tmp_path / "garbage.gguf"
    garbage.write_bytes(b"no model at all")
    with pytest.raises(QuantizeError, match="not a GGUF file"):
        requantize(garbage, target, "Q8_0", threads=1)
    garbage.write_bytes(small.read_bytes()[:5_000_000])
    with pytest.raises(QuantizeError, match="cannot rewrite"):
        requantize(garbage, target, "Q8_0", threads=1)
    assert not target.exists()
