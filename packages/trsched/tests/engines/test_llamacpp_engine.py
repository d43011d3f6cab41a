"""The llama.cpp engine: what a sequence computes depends on its own tokens, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trrouters import Need
from trsched.errors import ConfigError, EngineError
from trsched.models.model_path import resolve_model_path
from trsched.request import SamplingParams

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

from trsched.engines.llamacpp import LlamaCppEngine
from trsched.models.llamacpp_library import api, built_with_amx
from trsched.models.vocabulary import GgufVocabulary

GREEDY = SamplingParams(temperature=0.0)
TEXT = "The quick brown fox jumps over the lazy dog and then runs away into the dark forest. " * 8
BOTH: frozenset[Need] = frozenset({"logits", "hidden_states"})
Row = tuple[NDArray[np.float32], NDArray[np.float32] | None]


@pytest.fixture(scope="module")
def vocabulary() -> GgufVocabulary:
    try:
        path = resolve_model_path("package://trserve/models/smollm2-slm8.IQ4_NL.gguf", "path")
    except ConfigError as error:
        pytest.skip(str(error))
    return GgufVocabulary(path)


@pytest.fixture(scope="module")
def tokens(vocabulary: GgufVocabulary) -> list[int]:
    return vocabulary.encode(TEXT, special=False)


@pytest.fixture
def open_engine(vocabulary: GgufVocabulary) -> Iterator[Callable[..., LlamaCppEngine]]:
    engines = []

    def build(
        needs: frozenset[Need] = BOTH,
        sequences: int = 6,
        batch_tokens: int = 512,
        context: int = 256,
    ):
        path = resolve_model_path("package://trserve/models/smollm2-slm8.IQ4_NL.gguf", "path")
        engine = LlamaCppEngine(
            "slm",
            path,
            vocabulary,
            index=0,
            sequences=sequences,
            context=context,
            needs=needs,
            threads=2,
            batch_tokens=batch_tokens,
        )
        engines.append(engine)
        return engine

    yield build
    for engine in engines:
        engine.close()


def rows(engine: LlamaCppEngine, seqs: Sequence[int]) -> dict[int, Row]:
    """Step until each of `seqs` has sampled; copies of its logits and hidden state."""
    found: dict[int, Row] = {}
    while left := [seq for seq in seqs if seq not in found]:
        result = engine.step(left)
        logits = result.logits_output.next_token_logits
        hidden = result.logits_output.hidden_states
        for row, seq in enumerate(result.seqs):
            assert logits is not None
            assert result.sampled[row] == logits[row].argmax()
            state = None if hidden is None else hidden[row].numpy().copy()
            found[seq] = (logits[row].numpy().copy(), state)
    return found


def assert_same(one: Row, other: Row) -> None:
    assert np.array_equal(one[0], other[0])
    if one[1] is not None and other[1] is not None:
        assert np.array_equal(one[1], other[1])


@pytest.mark.parametrize("needs", [BOTH, frozenset({"logits"})], ids=["hidden", "logits"])
@pytest.mark.parametrize("batch_tokens", [512, 16])
def test_rows_do_not_depend_on_the_batch(open_engine, tokens, needs, batch_tokens) -> None:
    """Cold prompts in parts, single tokens and resumed suffixes, mixed, with gaps between them."""
    alone = open_engine(sequences=1)
    mixed = open_engine(needs, batch_tokens=batch_tokens)
    rng = random.Random(7)
    lengths = [rng.randrange(2, 100) for _ in range(6)]
    seqs = [mixed.start(tokens[i : i + length], GREEDY) for i, length in enumerate(lengths)]
    held = [tokens[i : i + length] for i, length in enumerate(lengths)]
    for turn in range(5):
        chosen = [i for i in range(6) if turn == 0 or rng.random() < 0.6]
        got = rows(mixed, [seqs[i] for i in chosen])
        for i in chosen:
            seq = alone.start(held[i], GREEDY)
            assert_same(rows(alone, [seq])[seq], got[seqs[i]])
            alone.release(seq)
        for i in chosen:
            suffix = tokens[turn : turn + rng.choice([1, 1, 1, 4])]
            mixed.append(seqs[i], suffix)
            held[i] += suffix


@pytest.mark.parametrize("length", [280, 540])
def test_nor_at_long_contexts(open_engine, tokens, length) -> None:
    """Where llama.cpp takes other kernels on an F16 cache: 64 rows at once, one row over 256."""
    text = (tokens * 8)[:length]
    alone = open_engine(sequences=1, context=600)
    mixed = open_engine(frozenset({"logits"}), sequences=3, batch_tokens=50, context=600)
    first = alone.start(text, GREEDY)
    seqs = [mixed.start(tokens[i : i + 30], GREEDY) for i in range(2)] + [mixed.start(text, GREEDY)]
    for token in tokens[:4]:
        assert_same(rows(alone, [first])[first], rows(mixed, seqs)[seqs[2]])
        alone.append(first, [token])
        for seq in seqs:
            mixed.append(seq, [token])


def test_a_prompt_gets_on_however_much_others_bring(open_engine, tokens) -> None:
    engine = open_engine(batch_tokens=16)
    prompt = engine.start(tokens[:40], GREEDY)
    others = [engine.start(tokens[:4], GREEDY) for _ in range(5)]
    for _ in range(10):  # a quarter of 16 tokens a step
        result = engine.step([prompt, *others])
        if prompt in result.seqs:
            return
        for seq in result.seqs:
            engine.append(seq, tokens[:4])  # it has been away, and is back
    pytest.fail("40 tokens took more than 10 steps")


def test_truncated_and_run_again(open_engine, tokens) -> None:
    engine = open_engine()
    seq = engine.start(tokens[:40], GREEDY)
    first = rows(engine, [seq])[seq]
    engine.append(seq, tokens[50:60])
    rows(engine, [seq])
    engine.truncate(seq, 39)
    assert engine.capacity().tokens_used == 39
    engine.append(seq, tokens[39:40])
    assert_same(first, rows(engine, [seq])[seq])


def test_capacity_and_misuse(open_engine, tokens) -> None:
    engine = open_engine(sequences=2)
    first, second = engine.start(tokens[:5], GREEDY), engine.start(tokens[:7], GREEDY)
    with pytest.raises(EngineError, match="no free sequence"):
        engine.start(tokens[:3], GREEDY)
    rows(engine, [first, second])
    capacity = engine.capacity()
    assert (capacity.sequences, capacity.sequences_used) == (2, 2)
    assert (capacity.tokens, capacity.tokens_used) == (512, 12)
    with pytest.raises(EngineError, match="no token to run"):
        engine.step([first])
    engine.release(first)
    with pytest.raises(EngineError, match="released twice"):
        engine.release(first)
    engine.release(second)
    assert engine.capacity().tokens_used == 0


def test_this_trees_llama_cpp_is_without_amx() -> None:
    """It crashes on processors that have it; see the Makefile."""
    assert not built_with_amx()


def test_another_build_keeps_out_of_amx(
    monkeypatch: pytest.MonkeyPatch, open_engine: Callable[..., LlamaCppEngine]
) -> None:
    loaded = []
    load = api.llama_model_load_from_file

    def spy(path: bytes, params: Any) -> Any:
        loaded.append(bool(params.use_extra_bufts))
        return load(path, params)

    monkeypatch.setattr(api, "llama_model_load_from_file", spy)
    open_engine()
    monkeypatch.setattr(api, "llama_print_system_info", lambda: b"AVX512 = 1 | AMX_INT8 = 1 | ")
    open_engine()
    assert loaded == [True, False]
