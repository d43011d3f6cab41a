"""What SGLang is asked for, and which SGLang: all that needs none of it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from trrouters import Need
from trsched.engines.sglang import contract
from trsched.engines.sglang.settings import SglangSettings, graph_batch_sizes, server_arguments
from trsched.errors import ConfigError, EngineError
from trsched.plan.sglang_model import SglangModel

NOTHING: frozenset[Need] = frozenset()
SETTINGS = SglangSettings("a-model", sequences=5, context=100, kv_tokens=500)


@pytest.mark.parametrize("found", ["0.5.23", "0.5.23.post1"])
def test_the_supported_release_is_taken(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(contract, "version", lambda name: found)
    contract.check_version()


@pytest.mark.parametrize("found", ["0.5.22", "0.5.24", "0.5.230", "0.6.0", "1.0"])
def test_another_release_is_refused(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(contract, "version", lambda name: found)
    with pytest.raises(EngineError, match=rf"works with SGLang 0\.5\.23, and {found} is installed"):
        contract.check_version()


def test_no_sglang_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(contract, "version", absent)
    with pytest.raises(EngineError, match=r"pip install 'trsched\[sglang\]'"):
        contract.check_version()


@pytest.mark.parametrize("name", ["enable_mixed_chunk", "max_total_tokens", "device", "tp_size"])
def test_what_the_engine_sets_nobody_else_does(name: str) -> None:
    settings = SglangSettings("m", 1, 10, 10, server_args={name: 1})
    with pytest.raises(ConfigError, match=f"^server_args.{name}: is set by the engine itself$"):
        server_arguments(settings, NOTHING, cuda=False)


@pytest.mark.parametrize("name", server_arguments(SETTINGS, NOTHING, cuda=False))
def test_a_configuration_refuses_what_the_engine_would(name: str) -> None:
    """When it is checked, and not only when the engine is opened."""
    settings = SglangSettings("m", 1, 10, 10, server_args={name: 1})
    try:
        server_arguments(settings, NOTHING, cuda=False)
    except ConfigError:
        with pytest.raises(ConfigError, match=rf"^models\[0\].server_args.{name}: "):
            SglangModel("m", "folder", server_args={name: 1}).check("models[0]")


def test_more_arguments_are_passed_on() -> None:
    extra = {"attention_backend": "triton", "page_size": 16, "chunked_prefill_size": 4096}
    settings = SglangSettings("m", 5, 100, 500, server_args=extra)
    arguments = server_arguments(settings, NOTHING, cuda=True)
    assert extra.items() <= arguments.items()
    assert arguments["max_total_tokens"] == 500 + 6 * 17


@pytest.mark.parametrize(
    ("needs", "mode"), [(NOTHING, None), (frozenset({"hidden_states"}), "last")]
)
def test_hidden_states_are_computed_for_those_who_read_them(
    needs: frozenset[Need], mode: str | None
) -> None:
    assert server_arguments(SETTINGS, needs, cuda=True)["return_hidden_states_mode"] == mode


def test_graphs_are_for_cuda() -> None:
    on_gpu: dict[str, Any] = server_arguments(SETTINGS, NOTHING, cuda=True)
    on_cpu = server_arguments(SETTINGS, NOTHING, cuda=False)
    assert on_gpu["cuda_graph_bs_decode"] == [1, 2, 3, 4, 5]
    assert "cuda_graph_bs_decode" not in on_cpu
    assert (on_gpu["device"], on_cpu["device"]) == ("cuda", "cpu")
    assert "attention_backend" not in on_gpu


@pytest.mark.parametrize("sequences", [1, 2, 63, 64, 65, 72, 73, 100, 256])
def test_every_batch_has_a_graph_and_few_rows_are_padded(sequences: int) -> None:
    sizes = graph_batch_sizes(sequences)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == sequences
    for batch in range(1, sequences + 1):
        padded = min(size for size in sizes if size >= batch)
        assert padded == batch or (batch > 64 and padded - batch < 8)
