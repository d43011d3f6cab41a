from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.sglang.tiny_models import Reference
    from trsched.engines.sglang.engine import SglangEngine

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """SGLang pins versions of its own: these tests run in an environment of their own."""
    if importlib.util.find_spec("sglang") is None:
        mark = pytest.mark.skip(reason="SGLang isn't installed here: it is in .venv-sglang")
    else:
        mark = pytest.mark.timeout(600)  # to import it takes ten CPU-seconds
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(mark)


OpenEngine = Callable[..., "AbstractContextManager[SglangEngine]"]


@pytest.fixture(scope="session", autouse=True)
def _imported() -> None:
    """What SGLang says about machines without CUDA when it is imported is no failure."""
    with warnings.catch_warnings(action="ignore"):
        import sglang_cpu_shims

        sglang_cpu_shims.install()
        importlib.import_module("trsched.engines.sglang.boot")


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small and a larger checkpoint."""
    from tests.support.sglang.tiny_models import make_pair

    return make_pair(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def reference(pair: tuple[Path, Path]) -> Reference:
    """The small checkpoint in transformers."""
    from tests.support.sglang.tiny_models import Reference

    return Reference(pair[0])


@pytest.fixture(scope="session")
def open_engine(pair: tuple[Path, Path]) -> OpenEngine:
    """An engine of the small checkpoint; one at a time, as SGLang is global in its process."""
    from trsched.engines.sglang.engine import SglangEngine
    from trsched.engines.sglang.settings import SglangSettings

    @contextmanager
    def build(
        path: Path = pair[0],
        *,
        sequences: int = 8,
        context: int = 256,
        kv_tokens: int = 2048,
        index: int = 0,
        needs: frozenset[str] = frozenset({"logits", "hidden_states", "token_embedding"}),
        extra_rows: int = 0,
        dtype: str = "float32",
        load_format: str = "auto",
        **server_args: Any,
    ) -> Iterator[SglangEngine]:
        settings = SglangSettings(
            str(path),
            sequences,
            context,
            kv_tokens,
            dtype=dtype,
            load_format=load_format,
            extra_rows=extra_rows,
            server_args=server_args,
        )
        with warnings.catch_warnings(action="ignore"):  # SGLang's about what CPUs lack
            engine = SglangEngine("tiny", settings, "fp", index=index, needs=needs)  # type: ignore[arg-type]
        try:
            yield engine
        finally:
            engine.close()

    return build
