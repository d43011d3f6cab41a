"""The sglang engine computes what transformers computes, whatever it keeps, finds and mixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from packages.trsched.tests.sglang_engine.conftest import OpenEngine
from packages.trsched.tests.sglang_engine.judges import (
    TOLERANCE,
    check_empty,
    check_memory,
    check_rows,
)
from tests.support.sglang.tiny_models import Reference
from trsched.engines.sampling import token_logprobs
from trsched.engines.sglang.engine import SglangEngine
from trsched.errors import ConfigError, EngineError
from trsched.request import SamplingParams

GREEDY = SamplingParams(temperature=0.0)
PROMPT = list(range(10, 40))
CHUNK = 16


@pytest.fixture(scope="module")
def shared(open_engine: OpenEngine) -> Iterator[SglangEngine]:
    with open_engine(chunked_prefill_size=CHUNK) as engine:
        yield engine


@pytest.fixture
def engine(shared: SglangEngine) -> Iterator[SglangEngine]:
    shared.scheduler.flush_cache()
    yield shared
    for seq, request in enumerate(shared._requests):
        if request is not None:
            shared.release(seq)
    check_empty(shared)


class Sequences:
    """Sequences of an engine with their tokens, each row checked against the reference."""

    def __init__(self, engine: SglangEngine, reference: Reference) -> None:
        self.engine = engine
        self._reference = reference
        self.tokens: dict[int, list[int]] = {}
        self.sampled: dict[int, int] = {}

    def start(self, token_ids: Sequence[int], sampling: SamplingParams = GREEDY) -> int:
        seq = self.engine.start(token_ids, sampling)
        self.tokens[seq] = list(token_ids)
        return seq

    def append(self, seq: int, *token_ids: int) -> None:
        self.engine.append(seq, token_ids)
        self.tokens[seq] += token_ids

    def keep(self, *seqs: int) -> None:
        """Append what was sampled."""
        for seq in seqs:
            self.append(seq, self.sampled[seq])

    def truncate(self, seq: int, length: int) -> None:
        self.engine.truncate(seq, length)
        del self.tokens[seq][length:]

    def step(self, *seqs: int) -> list[int]:
        """One step; the sequences that sampled."""
        result = self.engine.step(seqs)
        check_rows(result, self.tokens, self._reference)
        check_memory(self.engine)
        self.sampled |= dict(zip(result.seqs, result.sampled.tolist(), strict=True))
        return list(result.seqs)

    def run(self, *seqs: int) -> int:
        """Step until all of them have sampled; how many steps that took."""
        left, steps = set(seqs), 0
        while left:
            left -= set(self.step(*sorted(left)))
            steps += 1
        return steps


@pytest.fixture
def sequences(engine: SglangEngine, reference: Reference) -> Sequences:
    return Sequences(engine, reference)


def cached(engine: SglangEngine, seq: int) -> int:
    """Prompt tokens that the sequence found in the radix cache."""
    return int(engine._requests[seq].cached_tokens)


def test_spec_and_capacity(engine: SglangEngine) -> None:
    spec = engine.spec
    assert (spec.vocab_size, spec.hidden_size, spec.context_length) == (512, 64, 256)
    assert spec.kv_bytes_per_token == 2 * 2 * 2 * 16 * 4  # layers, K and V, heads, head size, bytes
    assert spec.provides == {"logits", "hidden_states", "token_embedding"}
    capacity = engine.capacity()
    assert (capacity.sequences, capacity.tokens, capacity.tokens_used) == (8, 2048, 0)


def test_a_cold_prompt_and_what_follows(sequences: Sequences) -> None:
    seq = sequences.start(PROMPT[:12])
    sequences.run(seq)
    assert sequences.engine.capacity().tokens_used == 12
    for _ in range(5):
        sequences.keep(seq)
        assert sequences.step(seq) == [seq]
    assert sequences.engine.capacity().tokens_used == 17


def test_a_sampled_token_is_no_part_of_its_sequence(sequences: Sequences) -> None:
    seq = sequences.start(PROMPT[:12])
    sequences.run(seq)
    for other in (7, 9, sequences.sampled[seq]):
        sequences.append(seq, other)
        sequences.step(seq)


def test_a_step_needs_a_token_to_run(sequences: Sequences) -> None:
    seq = sequences.start(PROMPT[:4])
    sequences.run(seq)
    with pytest.raises(EngineError, match=f"sequence {seq} has no token to run"):
        sequences.engine.step([seq])


def test_a_sequence_longer_than_the_context_is_refused(sequences: Sequences) -> None:
    seq = sequences.engine.start([5] * 257, GREEDY)
    with pytest.raises(EngineError, match=f"sequence {seq} is longer than the context"):
        sequences.engine.step([seq])


def test_all_of_the_context_can_be_used(sequences: Sequences) -> None:
    seq = sequences.start([5] * 250)
    sequences.run(seq)
    for _ in range(6):
        sequences.keep(seq)
        sequences.step(seq)
    assert len(sequences.tokens[seq]) == 256


def test_a_prompt_is_read_in_parts(sequences: Sequences) -> None:
    seq = sequences.start(PROMPT)
    assert sequences.step(seq) == []
    assert sequences.step(seq) == [seq]


def test_the_same_prompt_again_is_found_in_the_cache(sequences: Sequences) -> None:
    first = sequences.start(PROMPT)
    sequences.run(first)
    second = sequences.start(PROMPT)  # while the first is there
    assert sequences.run(second) == 1
    assert cached(sequences.engine, second) == len(PROMPT) - 1
    sequences.engine.release(first)
    sequences.engine.release(second)
    third = sequences.start([*PROMPT, 3, 4])  # and after that
    assert sequences.run(third) == 1
    assert cached(sequences.engine, third) == len(PROMPT)


def test_a_finished_response_is_in_the_cache_too(sequences: Sequences) -> None:
    first = sequences.start(PROMPT[:10])
    sequences.run(first)
    for _ in range(4):
        sequences.keep(first)
        sequences.step(first)
    tokens = sequences.tokens[first]
    sequences.engine.release(first)
    second = sequences.start([*tokens, 8])
    sequences.run(second)
    assert cached(sequences.engine, second) == len(tokens)


def test_cold_warm_and_decoding_rows_share_a_forward(sequences: Sequences) -> None:
    decoding = [sequences.start(PROMPT[:n]) for n in (3, 5)]
    sequences.run(*decoding)
    sequences.keep(*decoding)
    warm = sequences.start([*PROMPT[:5], 99, 98])
    cold = sequences.start([200, 201, 202])
    before = sequences.engine.scheduler.forward_ct
    assert sorted(sequences.step(*decoding, warm, cold)) == sorted([*decoding, warm, cold])
    assert sequences.engine.scheduler.forward_ct == before + 1
    assert cached(sequences.engine, warm) == 5


@pytest.mark.parametrize("others", [(), (7,), (7, 8, 9, 10, 11)])
def test_a_parked_sequence_comes_back_with_what_others_wrote(
    sequences: Sequences, others: tuple[int, ...]
) -> None:
    parked, running = sequences.start(PROMPT[:12]), sequences.start(PROMPT[3:9])
    sequences.run(parked, running)
    held = sequences.engine.capacity().tokens_used
    for _ in range(3):
        sequences.keep(running)
        sequences.step(running)
    assert sequences.engine.capacity().tokens_used == held + 3
    if others:
        sequences.append(parked, *others)
    else:
        sequences.keep(parked)
    sequences.keep(running)
    before = sequences.engine.scheduler.forward_ct
    assert sorted(sequences.step(parked, running)) == sorted([parked, running])
    assert sequences.engine.scheduler.forward_ct == before + 1
    sequences.keep(parked, running)
    sequences.step(parked, running)


def test_many_come_back_at_once_with_more_than_one_forward_takes(sequences: Sequences) -> None:
    seqs = [sequences.start([n, *PROMPT[:5]]) for n in range(50, 56)]
    sequences.run(*seqs)
    for seq in seqs:
        sequences.append(seq, *PROMPT[10:22])  # 6 × 12 tokens, 16 a forward
    assert sequences.run(*seqs) >= 72 // CHUNK


def test_what_is_sampled_in_the_middle_is_nobodys_next_token(sequences: Sequences) -> None:
    seq = sequences.start(PROMPT[:5])
    sequences.run(seq)
    sequences.append(seq, *range(300, 300 + CHUNK), sequences.sampled[seq])
    assert sequences.step(seq) == []
    assert sequences.step(seq) == [seq]  # one token, the same that it sampled last


def test_two_prompts_are_read_in_parts_at_once(sequences: Sequences) -> None:
    one, other = sequences.start(PROMPT), sequences.start([9, *PROMPT])
    assert sequences.step(one) == []
    assert sequences.step(other) == []  # the first waits in the middle of its prompt
    sequences.run(one, other)


@pytest.mark.parametrize("length", [29, 28, 20, 5, 1])
def test_a_shortened_sequence_goes_on_from_there(sequences: Sequences, length: int) -> None:
    seq = sequences.start(PROMPT[:20])
    sequences.run(seq)
    for token in range(100, 109):
        sequences.append(seq, token)
        sequences.step(seq)
    sequences.truncate(seq, length)
    check_memory(sequences.engine)
    sequences.append(seq, 61, 62)
    sequences.run(seq)
    sequences.keep(seq)
    sequences.run(seq)


@pytest.mark.parametrize("where", [20, 25])
def test_the_last_token_can_run_again(sequences: Sequences, where: int) -> None:
    """As the request table does with a request that comes back with nothing new."""
    seq = sequences.start(PROMPT[:20])
    sequences.run(seq)
    while len(sequences.tokens[seq]) < where:
        sequences.keep(seq)
        sequences.step(seq)
    last = sequences.tokens[seq][-1]
    sequences.truncate(seq, where - 1)
    sequences.append(seq, last)
    sequences.run(seq)


def test_tokens_not_yet_run_can_be_taken_back(sequences: Sequences) -> None:
    seq = sequences.start(PROMPT[:20])
    sequences.truncate(seq, 12)
    sequences.run(seq)
    sequences.append(seq, 1, 2, 3)
    sequences.truncate(seq, 13)
    sequences.run(seq)


def test_batches_change_row_by_row(sequences: Sequences) -> None:
    seqs = [sequences.start([n, *PROMPT[: n % 7 + 1]]) for n in range(60, 68)]
    sequences.run(*seqs)
    for leaving in range(8):
        ready = [seq for seq in seqs if seq != leaving]
        sequences.keep(*ready)
        assert sorted(sequences.step(*ready)) == sorted(ready)


def test_a_released_sequence_is_gone(engine: SglangEngine) -> None:
    seq = engine.start(PROMPT, GREEDY)
    engine.release(seq)
    for call in (lambda: engine.step([seq]), lambda: engine.release(seq)):
        with pytest.raises(EngineError, match=f"sequence {seq} is not in use"):
            call()


def test_no_more_sequences_than_agreed(engine: SglangEngine) -> None:
    for _ in range(8):
        engine.start(PROMPT, GREEDY)
    with pytest.raises(EngineError, match="no free sequence"):
        engine.start(PROMPT, GREEDY)


def test_log_probabilities_of_the_rows_that_asked(
    engine: SglangEngine, reference: Reference
) -> None:
    plain = engine.start(PROMPT[:6], GREEDY)
    asked = engine.start(PROMPT[:9], SamplingParams(temperature=0.0, logprobs=3))
    result = engine.step([plain, asked])
    by_seq = dict(zip(result.seqs, result.logprobs, strict=True))
    assert by_seq[plain] is None
    found = by_seq[asked]
    assert found is not None
    sampled = int(result.sampled[result.seqs.index(asked)])
    wanted = token_logprobs(reference(PROMPT[:9]).logits.numpy(), sampled, 3)
    assert found.logprob == pytest.approx(wanted.logprob, abs=TOLERANCE)
    assert [token for token, _ in found.top] == [token for token, _ in wanted.top]


def test_one_engine_a_process(engine: SglangEngine, open_engine: OpenEngine) -> None:
    del engine
    with pytest.raises(EngineError, match="one SGLang engine a process"), open_engine():
        pass


def test_arguments_that_the_engine_sets_are_refused(open_engine: OpenEngine) -> None:
    with (
        pytest.raises(ConfigError, match=r"server_args.disable_overlap_schedule: is set"),
        open_engine(disable_overlap_schedule=False),
    ):
        pass
