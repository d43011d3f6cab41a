"""Routers decide on the text that is there, however it came into the engine's memory.

What an engine shows of a text is the same bit for bit; scores are within `SCORE_TOLERANCE`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("gguf", reason="gguf is not installed")

from tests.support.trsched.judges import Judge
from tests.support.trsched.random_routers import NETWORKS
from tests.support.trsched.seen_outputs import (
    ALL,
    GREEDY,
    TEXT,
    Alone,
    assert_same,
    look,
    small_engine,
)
from trrouters import RouteResult
from trsched.engines.base import StepResult
from trsched.engines.llamacpp import LlamaCppEngine
from trsched.models.vocabulary import GgufVocabulary

LENGTH = 40


@pytest.fixture(scope="module")
def vocabulary(slm: Path) -> GgufVocabulary:
    return GgufVocabulary(slm)


@pytest.fixture(scope="module")
def tokens(vocabulary: GgufVocabulary) -> list[int]:
    return vocabulary.encode(TEXT, special=False)[: 2 * LENGTH]


@pytest.fixture(scope="module")
def alone(slm: Path, vocabulary: GgufVocabulary) -> Iterator[Alone]:
    """Cold: each text run at once, on an engine that has nothing else to do."""
    reference = Alone(slm, vocabulary)
    yield reference
    reference.close()


@pytest.fixture(scope="module")
def judges(alone: Alone, tokens: list[int], tmp_path_factory) -> list[Judge]:
    sample = [alone(tokens[:length]) for length in range(1, LENGTH)]
    return [
        Judge(algorithm, tmp_path_factory.mktemp(algorithm), sample)
        for algorithm in (*NETWORKS, "r_stitch")
    ]


class Texts:
    """Texts in an engine; every step is checked against the same texts cold."""

    def __init__(self, engine: LlamaCppEngine, alone: Alone, judges: list[Judge]) -> None:
        self.engine = engine
        self.held: dict[int, list[int]] = {}
        self._alone = alone
        self._judges = judges

    def start(self, text: list[int]) -> int:
        seq = self.engine.start(text, GREEDY)
        self.held[seq] = list(text)
        return seq

    def append(self, seq: int, suffix: list[int]) -> None:
        self.engine.append(seq, suffix)
        self.held[seq] += suffix

    def release(self, seq: int) -> list[int]:
        self.engine.release(seq)
        return self.held.pop(seq)

    def step(self, seqs: list[int]) -> StepResult:
        result = self.engine.step(seqs)
        expected = [self._alone(self.held[seq]) for seq in result.seqs]
        rows = look(result)
        for seq, cold in zip(result.seqs, expected, strict=True):
            assert_same(rows[seq], cold)
        if expected:
            shown = RouteResult([], result.next_token_ids, result.logits_output)
            for judge in self._judges:
                judge.check(shown, expected)
        return result


@pytest.fixture
def open_texts(
    slm: Path, vocabulary: GgufVocabulary, alone: Alone, judges: list[Judge]
) -> Iterator[Callable[..., Texts]]:
    engines = []

    def build(**changes: Any) -> Texts:
        engines.append(small_engine(slm, vocabulary, **changes))
        shown = changes.get("needs", ALL)
        return Texts(engines[-1], alone, [judge for judge in judges if judge.needs <= shown])

    yield build
    for engine in engines:
        engine.close()


def test_warm(open_texts, tokens) -> None:
    """Token by token, as the text was generated."""
    texts = open_texts()
    seq = texts.start(tokens[:1])
    for token in tokens[1:LENGTH]:
        texts.step([seq])
        texts.append(seq, [token])


@pytest.mark.parametrize("batch_tokens", [1, 3, 8])
def test_in_chunks(open_texts, tokens, batch_tokens) -> None:
    texts = open_texts(batch_tokens=batch_tokens)
    for length in (2, 9, 24, LENGTH):
        seq = texts.start(tokens[:length])
        steps = 1
        while not texts.step([seq]).seqs:
            steps += 1
        assert steps == -(-length // batch_tokens)
        texts.release(seq)


def test_evicted_and_computed_again(open_texts, tokens) -> None:
    """Another text has used the memory in between; the second time, the text comes at once."""
    texts = open_texts()
    seq = texts.start(tokens[:10])
    for length in range(10, LENGTH, 3):
        texts.step([seq])
        text = texts.release(seq)
        other = texts.start(tokens[LENGTH - length : LENGTH])
        texts.step([other])
        texts.release(other)
        seq = texts.start(text)
        texts.step([seq])
        texts.append(seq, tokens[length : length + 3])


def test_parked_and_resumed_with_what_another_model_wrote(open_texts, tokens) -> None:
    texts = open_texts(sequences=3)
    parked, busy = texts.start(tokens[:5]), texts.start(tokens[7:12])
    texts.step([parked, busy])
    length = 5
    for suffix in (1, 2, 5, 9, 1, 12):
        for token in tokens[length : length + suffix]:
            texts.append(busy, [token])
            texts.step([busy])
        texts.append(parked, tokens[length : length + suffix])
        length += suffix
        texts.step([parked])
        texts.append(parked, tokens[length : length + 1])
        length += 1
        texts.append(busy, tokens[:1])
        texts.step([parked, busy])


def test_a_token_dropped_for_another(open_texts, tokens) -> None:
    """As after a hand-off whose token does not stand: cut off, and gone on with another."""
    texts = open_texts()
    seq = texts.start(tokens[:20])
    for length in (20, 24, 28):
        texts.step([seq])
        texts.append(seq, tokens[length + 20 : length + 24])
        texts.step([seq])
        texts.engine.truncate(seq, length)
        texts.held[seq] = texts.held[seq][:length]
        texts.append(seq, tokens[length : length + 4])


@pytest.mark.parametrize(
    ("batch_tokens", "needs"), [(24, ALL), (128, ALL), (128, frozenset({"logits"}))]
)
def test_in_any_company(open_texts, tokens, batch_tokens, needs) -> None:
    """1 to 16 texts that come, wait, go on with one token or several, and leave."""
    rng = random.Random(batch_tokens)
    texts = open_texts(sequences=16, batch_tokens=batch_tokens, needs=needs)
    ready: dict[int, list[int]] = {}
    sizes = set()
    for turn in range(24):
        full = turn % 8 == 7
        crowd = 16 if full else rng.randrange(1, 17)
        while len(ready) < crowd:
            first = rng.randrange(4)
            text = tokens[first : first + rng.randrange(1, 12)]
            ready[texts.start(text)] = tokens[first + len(text) :]
        while len(ready) > crowd:
            texts.release(seq := rng.choice(list(ready)))
            del ready[seq]
        asked = list(ready) if full else rng.sample(list(ready), rng.randint(1, crowd))
        result = texts.step(asked)
        sizes.add(len(result.seqs))
        for seq in result.seqs:
            count = rng.choice([1, 1, 1, 4])
            texts.append(seq, ready[seq][:count])
            ready[seq] = ready[seq][count:]
    assert {1, 16} <= sizes if batch_tokens == 128 else len(sizes) > 4
