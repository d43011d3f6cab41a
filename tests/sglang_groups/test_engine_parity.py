"""One checkpoint on both engines, SGLang and llama.cpp: the same logits, states and tokens."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from trrouters import Need
from trsched.engines.base import Engine, StepResult
from trsched.models.hf_config import read_hf_config
from trsched.request import SamplingParams

TOLERANCE = 0.1
"""Of logits (up to 5) and hidden states; 0.05 was seen. llama.cpp keeps its KV in BF16 here."""
GREEDY = SamplingParams(temperature=0.0)
NEEDS: frozenset[Need] = frozenset({"logits", "hidden_states", "token_embedding"})
SEQUENCES, CONTEXT = 4, 256


@pytest.fixture(scope="module")
def converted(pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The large checkpoint as GGUF."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    from tests.sglang_groups.tiny_gguf import write_gguf

    return write_gguf(pair[1], tmp_path_factory.mktemp("gguf") / "large.gguf")


@pytest.fixture(scope="module")
def engines(pair: tuple[Path, Path], converted: Path) -> Iterator[tuple[Engine, Engine]]:
    """SGLang's and llama.cpp's."""
    from trsched.engines.llamacpp import LlamaCppEngine
    from trsched.engines.sglang.engine import SglangEngine
    from trsched.engines.sglang.settings import SglangSettings
    from trsched.models.vocabulary import GgufVocabulary

    vocabulary = GgufVocabulary(converted)
    settings = SglangSettings(
        str(pair[1]), SEQUENCES, CONTEXT, SEQUENCES * CONTEXT, dtype="float32"
    )
    with warnings.catch_warnings(action="ignore"):  # of what SGLang imports
        sglang = SglangEngine("sglang", settings, vocabulary.fingerprint, index=0, needs=NEEDS)
    llamacpp = LlamaCppEngine(
        "llamacpp",
        converted,
        vocabulary,
        index=0,
        sequences=SEQUENCES,
        context=CONTEXT,
        needs=NEEDS,
    )
    yield sglang, llamacpp
    sglang.close()
    llamacpp.close()


def test_one_vocabulary(pair: tuple[Path, Path], converted: Path) -> None:
    """So that the two may hand over to each other."""
    from trsched.models.hf_vocabulary import HfVocabulary
    from trsched.models.vocabulary import GgufVocabulary

    config = read_hf_config(pair[1] / "config.json", "path")
    assert (
        HfVocabulary(pair[1], config, "path", name="large").fingerprint
        == GgufVocabulary(converted).fingerprint
    )


def test_same_logits_states_and_greedy_tokens(engines: tuple[Engine, Engine]) -> None:
    """Prompts of several lengths, a batch, tokens from elsewhere, and a sequence cut short."""
    starts = [list(range(20 + 7 * n, 20 + 7 * n + length)) for n, length in enumerate((3, 40, 90))]
    walk = Walk(engines)
    seqs = [walk.start(prompt) for prompt in starts]
    for _ in range(12):
        walk.step(seqs)
    walk.append(seqs[0], [300, 301, 302, 303])  # a suffix that another model wrote
    walk.truncate(seqs[1], 30)
    walk.append(seqs[1], [77])
    for turn in range(12):
        walk.step(seqs[: turn % 3 + 1])
    for seq in seqs:
        walk.release(seq)
    assert walk.clear > 30  # of 60
    assert [engine.capacity().sequences_used for engine in engines] == [0, 0]


class Walk:
    """The same calls to both engines, compared after each step.

    clear: steps of a sequence whose largest logit leads by more than the tolerance can explain.
    """

    def __init__(self, engines: tuple[Engine, Engine]) -> None:
        self.clear = 0
        self._engines = engines
        self._seqs: list[tuple[int, int]] = []

    def start(self, prompt: list[int]) -> int:
        first, second = (engine.start(prompt, GREEDY) for engine in self._engines)
        self._seqs.append((first, second))
        return len(self._seqs) - 1

    def append(self, seq: int, token_ids: list[int]) -> None:
        for engine, own in zip(self._engines, self._seqs[seq], strict=True):
            engine.append(own, token_ids)

    def truncate(self, seq: int, length: int) -> None:
        for engine, own in zip(self._engines, self._seqs[seq], strict=True):
            engine.truncate(own, length)

    def release(self, seq: int) -> None:
        for engine, own in zip(self._engines, self._seqs[seq], strict=True):
            engine.release(own)

    def step(self, seqs: list[int]) -> None:
        """One forward of each; what SGLang's largest logit says is appended on both."""
        results = [
            rows(engine, [self._seqs[seq][side] for seq in seqs])
            for side, engine in enumerate(self._engines)
        ]
        for seq in seqs:
            (logits, hidden, token), (other, other_hidden, other_token) = (
                result[own] for result, own in zip(results, self._seqs[seq], strict=True)
            )
            assert np.abs(logits - other).max() < TOLERANCE
            assert np.abs(hidden - other_hidden).max() < TOLERANCE
            second, first = np.sort(logits)[-2:]
            if first - second > 2 * TOLERANCE:
                assert token == other_token
                self.clear += 1
            self.append(seq, [token])


Row = tuple[np.ndarray, np.ndarray, int]


def rows(engine: Engine, seqs: list[int]) -> dict[int, Row]:
    """What one step shows of each sequence: logits, hidden state, the token sampled."""
    found: dict[int, Row] = {}
    while missing := [seq for seq in seqs if seq not in found]:
        found |= by_sequence(engine.step(missing))
    return found


def by_sequence(result: StepResult) -> dict[int, Row]:
    shown = result.logits_output
    assert shown is not None
    assert shown.next_token_logits is not None
    assert shown.hidden_states is not None
    return {
        seq: (
            shown.next_token_logits[row].numpy().copy(),
            shown.hidden_states[row].numpy().copy(),
            int(result.sampled[row]),
        )
        for row, seq in enumerate(result.seqs)
    }
