from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trsched.errors import ConfigError
from trsched.models.model_path import resolve_model_path

if TYPE_CHECKING:
    from tests.support.trsched.deferral_gguf import DeferralModel


@pytest.fixture(scope="session")
def slm() -> Iterator[Path]:
    """The shipped small model. The gguf package reads it once: that takes seconds each time."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    try:
        path = resolve_model_path("package://trserve/models/smollm2-slm8.IQ4_NL.gguf", "path")
    except ConfigError as error:
        pytest.skip(str(error))
    read, again = gguf.GGUFReader, cache(gguf.GGUFReader)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf, "GGUFReader", lambda file: (again if file == path else read)(file))
        yield path


@pytest.fixture(scope="session")
def deferral_model(slm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeferralModel]:
    """The small model with a deferral row."""
    from tests.support.trsched.deferral_gguf import make_deferral_model

    model = make_deferral_model(slm, tmp_path_factory.mktemp("deferral") / "base.gguf")
    yield model
    model.path.unlink()
