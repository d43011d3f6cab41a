"""Too little KV, and requests that end in whatever state they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from packages.trsched.tests.sglang_engine.conftest import OpenEngine
from packages.trsched.tests.sglang_engine.judges import check_empty, check_memory, check_rows
from tests.support.sglang.tiny_models import Reference
from trsched.engines.sglang.engine import SglangEngine
from trsched.errors import EngineError
from trsched.request import SamplingParams

GREEDY = SamplingParams(temperature=0.0)


def prompt(n: int, length: int = 30) -> list[int]:
    """Prompts that share nothing."""
    return [n, *range(100, 99 + length)]


def holds_kv(engine: SglangEngine, seq: int) -> bool:
    return bool(engine._requests[seq].ran > 0)


def decode(engine: SglangEngine, seq: int, token_ids: Iterable[int]) -> None:
    for token in token_ids:
        engine.step([seq])
        engine.append(seq, [token])


def test_the_longest_parked_gives_its_kv_first_and_reads_anew(
    open_engine: OpenEngine, reference: Reference
) -> None:
    with open_engine(sequences=5, kv_tokens=100, context=60) as engine:
        parked = [engine.start(prompt(n), GREEDY) for n in (3, 4, 5)]
        sampled = {}
        for seq in parked:
            sampled[seq] = int(engine.step([seq]).sampled[0])
        for filler in (6, 7):
            seq = engine.start(prompt(filler, 25), GREEDY)
            assert list(engine.step([seq]).seqs) == [seq]
            check_memory(engine)
        assert [holds_kv(engine, seq) for seq in parked] == [False, False, True]
        tokens = [*prompt(3), sampled[parked[0]], 9]
        engine.append(parked[0], tokens[-2:])
        result = engine.step([parked[0]])
        check_rows(result, {parked[0]: tokens}, reference)
        for seq in range(5):
            engine.release(seq)
        check_empty(engine)


def test_running_sequences_all_get_through(open_engine: OpenEngine, reference: Reference) -> None:
    """Four that need more together than there is: some wait, all finish, none is wrong."""
    with open_engine(kv_tokens=120, context=60, chunked_prefill_size=16) as engine:
        tokens = {engine.start(prompt(n), GREEDY): prompt(n) for n in (3, 4, 5, 6)}
        turns = 0
        while tokens:
            turns += 1
            assert turns < 400
            result = engine.step(list(tokens))
            check_rows(result, tokens, reference)
            check_memory(engine)
            for seq, token in zip(result.seqs, result.sampled.tolist(), strict=True):
                engine.append(seq, [token])
                tokens[seq].append(token)
                if len(tokens[seq]) == 55:
                    engine.release(seq)
                    del tokens[seq]
        assert engine.scheduler.retractions > 0
        check_empty(engine)


def test_what_never_fits_is_an_error(open_engine: OpenEngine) -> None:
    with open_engine(kv_tokens=40, sequences=2, context=100) as engine:
        seq = engine.start(prompt(3, 80), GREEDY)
        with pytest.raises(EngineError, match="cannot hold one more sequence"):
            engine.step([seq])
        engine.release(seq)
        seq = engine.start(prompt(4, 40), GREEDY)
        with pytest.raises(EngineError, match="cannot hold one more sequence"):
            decode(engine, seq, range(100, 160))
        engine.release(seq)
        check_empty(engine)


def waiting(engine: SglangEngine) -> int:
    return engine.start(prompt(50), GREEDY)


def in_the_middle(engine: SglangEngine) -> int:
    seq = engine.start(prompt(51), GREEDY)
    assert not engine.step([seq]).seqs
    return seq


def has_run(engine: SglangEngine) -> int:
    seq = engine.start(prompt(52), GREEDY)
    while not engine.step([seq]).seqs:
        pass
    return seq


def running(engine: SglangEngine) -> int:
    seq = has_run(engine)
    for token in (5, 6, 7):
        engine.append(seq, [token])
        engine.step([seq])
    engine.append(seq, [8])
    return seq


def running_with_another(engine: SglangEngine) -> int:
    seq, other = running(engine), running(engine)
    engine.step([seq, other])
    engine.append(seq, [8])
    engine.append(other, [8])
    engine.release(other)
    return seq


def parked(engine: SglangEngine) -> int:
    seq, other = has_run(engine), running(engine)
    engine.step([other])
    engine.release(other)
    return seq


def come_back(engine: SglangEngine) -> int:
    seq = parked(engine)
    engine.append(seq, range(200, 230))
    return seq


def come_back_in_the_middle(engine: SglangEngine) -> int:
    seq = come_back(engine)
    assert not engine.step([seq]).seqs
    return seq


def retracted(engine: SglangEngine) -> int:
    seq = has_run(engine)
    fillers = [engine.start(prompt(n, 80), GREEDY) for n in (60, 61)]
    for filler in fillers:
        while not engine.step([filler]).seqs:
            pass
    assert not holds_kv(engine, seq)
    for filler in fillers:
        engine.release(filler)
    return seq


STATES = [
    waiting,
    in_the_middle,
    has_run,
    running,
    running_with_another,
    parked,
    come_back,
    come_back_in_the_middle,
    retracted,
]


def test_a_sequence_can_end_in_any_state(open_engine: OpenEngine, reference: Reference) -> None:
    """And what runs beside it does not notice."""
    with open_engine(sequences=5, kv_tokens=180, context=100, chunked_prefill_size=16) as engine:
        neighbour = engine.start(prompt(80, 20), GREEDY)
        tokens = {neighbour: prompt(80, 20)}
        for reach in STATES:
            reached: Callable[[SglangEngine], int] = reach
            seq = reached(engine)
            used = engine.capacity().sequences_used
            engine.release(seq)
            assert engine.capacity().sequences_used == used - 1 == 1
            check_memory(engine)
            result = engine.step([neighbour])
            while not result.seqs:
                result = engine.step([neighbour])
            check_rows(result, tokens, reference)
            engine.append(neighbour, result.sampled.tolist())
            tokens[neighbour] += result.sampled.tolist()
        engine.release(neighbour)
        check_empty(engine)
