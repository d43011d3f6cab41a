"""What the llama.cpp engine shows routers: the right numbers, of the right sequences, if wanted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("gguf", reason="gguf is not installed")

import gguf

from tests.support.trsched.seen_outputs import (
    ALL,
    GREEDY,
    HEAD_TOLERANCE,
    TEXT,
    Alone,
    assert_same,
    look,
    look_at,
    rounded,
    small_engine,
)
from trrouters import Need
from trsched.engines.embedding_table import EmbeddingTable
from trsched.engines.llamacpp import LlamaCppEngine
from trsched.errors import EngineError
from trsched.models.vocabulary import GgufVocabulary
from trsched.request import SamplingParams


@pytest.fixture(scope="module")
def vocabulary(slm: Path) -> GgufVocabulary:
    return GgufVocabulary(slm)


@pytest.fixture(scope="module")
def tokens(vocabulary: GgufVocabulary) -> list[int]:
    return vocabulary.encode(TEXT, special=False)


@pytest.fixture(scope="module")
def table(slm: Path) -> NDArray[np.float32]:
    """All token embeddings, `[vocab, hidden]`."""
    (found,) = (t for t in gguf.GGUFReader(slm).tensors if t.name == "token_embd.weight")
    whole: NDArray[np.float32] = gguf.dequantize(found.data, found.tensor_type)
    return whole


@pytest.fixture(scope="module")
def alone(slm: Path, vocabulary: GgufVocabulary) -> Iterator[Alone]:
    reference = Alone(slm, vocabulary)
    yield reference
    reference.close()


@pytest.fixture
def open_engine(slm: Path, vocabulary: GgufVocabulary) -> Iterator[Callable[..., LlamaCppEngine]]:
    engines = []

    def build(**changes: Any) -> LlamaCppEngine:
        engines.append(small_engine(slm, vocabulary, **changes))
        return engines[-1]

    yield build
    for engine in engines:
        engine.close()


def test_embeddings_are_those_of_the_sampled_tokens(open_engine, tokens, table) -> None:
    engine = open_engine(sequences=4)
    for i in range(4):
        engine.start(tokens[i : i + 12], SamplingParams(temperature=1.5, seed=i))
    sampled = []
    for _ in range(4):
        for seq, row in look(engine.step(range(4))).items():
            assert row.embedding is not None
            assert np.array_equal(row.embedding, table[row.token])
            sampled.append(row.token)
            engine.append(seq, [row.token])
    assert len(set(sampled)) > 8  # of 16


def test_logits_are_the_state_times_the_tied_embeddings(open_engine, tokens, table) -> None:
    engine = open_engine()
    seq = engine.start(tokens[:1], GREEDY)
    states: list[Any] = []
    logits: list[Any] = []
    for token in tokens[1:9]:
        row = look_at(engine, seq)
        states.append(row.hidden)
        logits.append(row.logits)
        engine.append(seq, [token])
    assert np.std(logits, axis=1).min() > 1
    np.testing.assert_allclose(rounded(np.array(states)) @ table.T, logits, atol=HEAD_TOLERANCE)


@pytest.mark.parametrize(
    "needs",
    [set(), {"logits"}, {"hidden_states"}, {"token_embedding"}, {"extra_logits"}, ALL],
    ids=str,
)
def test_only_what_is_needed_is_shown(open_engine, alone, tokens, needs: set[Need]) -> None:
    engine = open_engine(needs=frozenset(needs))
    seq = engine.start(tokens[:20], GREEDY)
    result = engine.step([seq])
    shown = result.logits_output
    assert (shown.next_token_logits is not None) == ("logits" in needs)
    assert (shown.hidden_states is not None) == ("hidden_states" in needs)
    assert (shown.token_embeddings is not None) == ("token_embedding" in needs)
    assert look(result)[seq].token == alone(tokens[:20]).token


def test_the_file_is_not_read_again_for_nothing(open_engine, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)  # as if it were not installed
    open_engine(needs=frozenset({"logits", "hidden_states"}))
    with pytest.raises(EngineError, match=r"pip install 'trsched\[llamacpp\]'"):
        open_engine(needs=frozenset({"token_embedding"}))


@pytest.mark.parametrize(("batch_tokens", "late"), [(24, True), (128, False)])
def test_rows_are_of_their_sequences(open_engine, alone, tokens, batch_tokens, late) -> None:
    """Short prompts and a long one, in parts where the batch is small; one sits out each time."""
    engine = open_engine(sequences=5, batch_tokens=batch_tokens)
    prompts = [tokens[i : i + length] for i, length in enumerate([5, 70, 6, 12, 5])]
    held = {engine.start(prompt, GREEDY): prompt for prompt in prompts}
    counts = dict.fromkeys(held, 0)
    for turn in range(8):
        asked = [seq for seq in held if seq != turn % 5]
        rows = look(engine.step(asked))
        assert rows.keys() <= set(asked)
        assert late or len(rows) == len(asked)
        for seq, row in rows.items():
            assert_same(row, alone(held[seq]))
            suffix = tokens[turn : turn + 1 + (turn + seq) % 3]
            engine.append(seq, suffix)
            held[seq] = held[seq] + suffix
            counts[seq] += 1
    assert min(counts.values()) >= 2
    assert (counts[1] < counts[0]) == late  # the long prompt came in several parts


FORMATS = ["F32", "F16", "BF16", "Q8_0", "Q5_1", "Q4_0"]


@pytest.mark.parametrize("form", FORMATS)
def test_tables_of_any_format(tmp_path: Path, form: str) -> None:
    values = np.random.default_rng(1).normal(size=(50, 64)).astype(np.float32)
    kind = gguf.GGMLQuantizationType[form]
    stored = gguf.quantize(values, kind)
    write(tmp_path / "model.gguf", "token_embd.weight", stored, kind)
    rows = EmbeddingTable(tmp_path / "model.gguf")[np.array([49, 0, 7, 7])]
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    assert np.array_equal(rows, gguf.dequantize(stored, kind)[[49, 0, 7, 7]])
    assert np.abs(rows - values[[49, 0, 7, 7]]).max() < 0.5


def test_a_model_without_a_table(tmp_path: Path) -> None:
    kind = gguf.GGMLQuantizationType.F32
    write(tmp_path / "odd.gguf", "output.weight", np.zeros((4, 32), np.float32), kind)
    with pytest.raises(EngineError, match=r"odd\.gguf has no token embeddings"):
        EmbeddingTable(tmp_path / "odd.gguf")


def write(path: Path, tensor: str, data: NDArray[Any], kind: Any) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor(tensor, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
