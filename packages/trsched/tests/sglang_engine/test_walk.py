"""Any order of calls: a random walk over the engine protocol, against transformers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from packages.trsched.tests.sglang_engine.conftest import OpenEngine
from packages.trsched.tests.sglang_engine.judges import check_empty, check_memory, check_rows
from tests.support.sglang.tiny_models import Reference
from trsched.engines.sglang.engine import SglangEngine
from trsched.request import SamplingParams

GREEDY = SamplingParams(temperature=0.0)
SHARED = list(range(100, 140))
LONGEST = 90


class Walk:
    """Sequences in all states; what is ready to step has tokens that haven't run."""

    def __init__(self, engine: SglangEngine, reference: Reference, seed: int) -> None:
        self._engine = engine
        self._reference = reference
        self._random = random.Random(seed)
        self._tokens: dict[int, list[int]] = {}
        self._sampled: dict[int, int | None] = {}  # None: has tokens to run
        self.rows = 0

    def turn(self) -> None:
        """One call, or one step and what a group does after it."""
        actions = [self._start, self._step, self._step, self._step, self._step]
        if self._tokens:
            actions += [self._come_back, self._truncate, self._release]
        self._random.choice(actions)()
        check_memory(self._engine)

    def release_all(self) -> None:
        """As at the end of all requests."""
        for seq in list(self._tokens):
            self._engine.release(seq)
        self._tokens.clear()

    def _start(self) -> None:
        if self._engine.capacity().sequences_used == self._engine.capacity().sequences:
            return
        own = [self._random.randrange(3, 512) for _ in range(self._random.randrange(1, 30))]
        prompt = SHARED[: self._random.choice((0, 0, 7, 40))] + own
        seq = self._engine.start(prompt, GREEDY)
        self._tokens[seq] = prompt
        self._sampled[seq] = None

    def _step(self) -> None:
        ready = [seq for seq in self._tokens if self._sampled[seq] is None]
        chosen = [seq for seq in ready if self._random.random() < 0.8] or ready
        if not chosen:
            return
        result = self._engine.step(chosen)
        check_rows(result, self._tokens, self._reference)
        self.rows += len(result.seqs)
        for seq, token in zip(result.seqs, result.sampled.tolist(), strict=True):
            self._sampled[seq] = token
            if self._random.random() < 0.6:  # it stays here
                self._append(seq, [token])

    def _come_back(self) -> None:
        """A parked one comes back with what others wrote, its own last token among it or not."""
        seq = self._random.choice(list(self._tokens))
        token = self._sampled[seq]
        if token is None:
            return
        others = [self._random.randrange(3, 512) for _ in range(self._random.choice((0, 1, 4, 20)))]
        kept = [token] if self._random.random() < 0.5 or not others else []
        self._append(seq, kept + others)

    def _append(self, seq: int, token_ids: list[int]) -> None:
        if len(self._tokens[seq]) + len(token_ids) > LONGEST:
            self._engine.release(seq)
            del self._tokens[seq]
            return
        self._engine.append(seq, token_ids)
        self._tokens[seq] += token_ids
        self._sampled[seq] = None

    def _truncate(self) -> None:
        seq = self._random.choice(list(self._tokens))
        tokens = self._tokens[seq]
        length = self._random.randrange(1, len(tokens) + 1)
        self._engine.truncate(seq, length)
        del tokens[length:]
        self._append(seq, [self._random.randrange(3, 512)])

    def _release(self) -> None:
        if self._random.random() < 0.3:
            seq = self._random.choice(list(self._tokens))
            self._engine.release(seq)
            del self._tokens[seq]


@pytest.mark.parametrize(
    ("sequences", "kv_tokens", "server_args"),
    [
        (8, 2048, {}),
        (8, 2048, {"chunked_prefill_size": 16}),
        (8, 160, {"chunked_prefill_size": 32}),
        (3, 100, {}),
        (6, 256, {"page_size": 4, "chunked_prefill_size": 24}),
    ],
    ids=["roomy", "small chunks", "little KV", "hardly any KV", "pages"],
)
def test_a_random_walk(
    open_engine: OpenEngine,
    reference: Reference,
    sequences: int,
    kv_tokens: int,
    server_args: dict[str, Any],
) -> None:
    with open_engine(
        sequences=sequences, kv_tokens=kv_tokens, context=100, **server_args
    ) as engine:
        for seed in range(4):
            walk = Walk(engine, reference, seed)
            for _ in range(150):
                walk.turn()
            assert walk.rows > 40
            walk.release_all()
            check_memory(engine)
            assert engine.capacity().tokens_used == 0
        assert (engine.scheduler.retractions > 0) == (kv_tokens < 200)
        check_empty(engine)
