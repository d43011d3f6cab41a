from __future__ import annotations

import statistics

import pytest

from benchmarks.load.workload import (
    LEAST_PROMPT,
    WORKLOADS,
    ChatFrame,
    WorkloadShape,
    byte_encode,
    context_needed,
    items,
)

SCALES = (1.0, 0.25, 1 / 16, 1 / 64, 1e-6)
EACH = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)


def test_the_three_workloads_are_the_issue_s() -> None:
    caps = {name: (w.prompt, w.longest_output(1)) for name, w in WORKLOADS.items()}
    assert caps == {
        "low-effort": (100, 2048),
        "high-effort": (100, 8192),
        "agentic": (8192, 1024),
    }


@EACH
@pytest.mark.parametrize("scale", SCALES)
def test_lengths_scale_and_keep_their_bounds(workload: WorkloadShape, scale: float) -> None:
    made = items(workload, 40, scale, 0, byte_encode)
    for item in made:
        assert LEAST_PROMPT <= len(item.prompt_ids) <= workload.longest_prompt(scale)
        assert 1 <= item.max_tokens <= workload.longest_output(scale)
        assert len(item.prompt_ids) + item.max_tokens <= context_needed(workload, scale)
        assert max(item.prompt_ids) < 256
    if scale >= 1 / 64:
        mean = statistics.fmean(len(item.prompt_ids) for item in made)
        assert mean == pytest.approx(max(LEAST_PROMPT, workload.prompt * scale), rel=0.1)


@EACH
@pytest.mark.parametrize("n", [8, 200])
def test_most_responses_run_long_and_a_fifth_to_the_cap(workload: WorkloadShape, n: int) -> None:
    lengths = [item.max_tokens / workload.cap for item in items(workload, n, 1, 3, byte_encode)]
    assert sum(length == 1 for length in lengths) / n == pytest.approx(0.2, abs=0.13)
    assert sum(length > 0.5 for length in lengths) / n == pytest.approx(0.62, abs=0.13)
    assert statistics.fmean(lengths) == pytest.approx(0.63, abs=0.06)
    assert lengths != sorted(lengths)


@EACH
def test_items_are_a_function_of_the_arguments(workload: WorkloadShape) -> None:
    made = items(workload, 12, 0.1, 5, byte_encode)
    assert made == items(workload, 12, 0.1, 5, byte_encode)
    other = items(workload, 12, 0.1, 6, byte_encode)
    assert [i.max_tokens for i in made] != [i.max_tokens for i in other]
    assert len({item.seed for item in made + other}) == 24
    assert [item.number for item in made] == list(range(12))


@EACH
@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_no_two_requests_share_their_first_tokens(workload: WorkloadShape, scale: float) -> None:
    starts = [
        item.prompt_ids[:LEAST_PROMPT]
        for seed in (0, 1, 11)
        for item in items(workload, 60, scale, seed, byte_encode)
    ]
    assert len(set(starts)) == len(starts)
    firsts = [item.prompt_ids[0] for item in items(workload, 26, scale, 0, byte_encode)]
    assert len(set(firsts)) == 26


def test_prompts_are_questions() -> None:
    (item,) = items(WORKLOADS["low-effort"], 1, 4.0, 7, byte_encode)
    text = bytes(item.prompt_ids).decode()
    assert text.startswith("A7: ")
    assert "?" in text or "." in text


def test_a_frame_is_inside_the_length_and_left_out_where_it_would_be_most_of_it() -> None:
    frame = ChatFrame((901, 902), (903,))
    body = list(range(20))
    assert frame.around(body, 10) == (901, 902, *range(7), 903)
    assert frame.around(body, 5) == (0, 1, 2, 3, 4)
    framed = items(WORKLOADS["low-effort"], 3, 1.0, 0, byte_encode, frame)
    plain = items(WORKLOADS["low-effort"], 3, 1.0, 0, byte_encode)
    for one, other in zip(framed, plain, strict=True):
        assert len(one.prompt_ids) == len(other.prompt_ids)
        assert one.prompt_ids[:2] == (901, 902)
        assert one.prompt_ids[-1] == 903
        assert one.prompt_ids[2:-1] == other.prompt_ids[:-3]
        assert one.max_tokens == other.max_tokens


@pytest.mark.models
def test_the_demo_pair_s_frame_opens_and_closes_the_user_s_turn() -> None:
    from trsched.plan.check import check_group
    from trserve.server.deployment import load_deployment
    from trserve.server.text.tokenizer import Tokenizer

    vocabulary = check_group(load_deployment(preset="smol-slm").group).vocabularies[0]
    frame = ChatFrame.of(Tokenizer(vocabulary))

    def encode(text: str) -> list[int]:
        return vocabulary.encode(text, special=False)

    special = vocabulary.encode("\n<|im_start|>user\n", special=True)
    assert frame.head == tuple(special)
    close = vocabulary.encode("<|im_end|>\n<|im_start|>assistant\n", special=True)
    assert frame.tail == tuple(close)
    made = items(WORKLOADS["agentic"], 2, 0.25, 0, encode, frame)
    assert {len(item.prompt_ids) for item in made} == {2048}
    assert made[0].prompt_ids[len(frame.head)] != made[1].prompt_ids[len(frame.head)]
