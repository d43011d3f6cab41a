"""What `trrouters collect` keeps, and that a run that was stopped goes on to the same bytes."""

# ruff: noqa: E402  (without torch this module is skipped before it imports it)

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="trrouters[torch] is not installed: no torch")
pytest.importorskip("safetensors", reason="trrouters[torch] is not installed: no safetensors")

from packages.trrouters.tests.scripted_pair import (
    HIDDEN,
    Scripted,
    greedy_answer,
    mostly,
    plain_embedding,
    plain_hidden,
    plain_labels,
    plain_logits,
    rule,
    scripted_pair,
)
from trrouters.algorithms.r_stitch import normalized_entropy
from trrouters.training.collect import (
    CollectSettings,
    SettingsChangedError,
    collect,
    collect_shard,
)
from trrouters.training.pair import PairError
from trrouters.training.rows import Rows, load_rows

PROMPTS = [f"question {word}?" for word in ("one", "two", "three", "four", "4", "5", "6", "7")]
SETTINGS = CollectSettings(max_tokens=10, horizon=3, top_k=5)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


# --- rows


@given(
    seed=st.integers(0, 10_000),
    vocab=st.integers(4, 12),
    order=st.integers(1, 3),
    agreement=st.sampled_from([0.0, 0.6, 1.0]),
    budget=st.integers(1, 30),
    max_tokens=st.integers(1, 12),
    horizon=st.integers(1, 4),
)
def test_rows_are_those_of_the_plain_definition(
    seed: int,
    vocab: int,
    order: int,
    agreement: float,
    budget: int,
    max_tokens: int,
    horizon: int,
) -> None:
    """The large model's greedy answer, and what the small model shows at each of its tokens."""
    large = rule(seed, vocab, order)
    small = mostly(large, seed + 1, vocab, agreement)
    scripted = scripted_pair(large, small, vocab=vocab, budget=budget)
    settings = CollectSettings(max_tokens, horizon, top_k=3)
    rows = collect_shard(scripted.pair, ["one?", "a longer one?"], 5, settings)
    assert scripted.released()

    i = 0
    for number, text in enumerate(["one?", "a longer one?"], 5):
        prompt = scripted.pair.prompt_ids(text)
        answer = greedy_answer(large, prompt, max_tokens, frozenset({0}))
        others = [small([*prompt, *answer[:n]]) for n in range(len(answer))]
        part = slice(i, i + len(answer))
        assert rows.tokens[part].tolist() == answer
        assert rows.small_tokens[part].tolist() == others
        assert rows.prompts[part].tolist() == [number] * len(answer)
        labels = plain_labels(large, prompt, answer, others, horizon, frozenset({0}))
        assert rows.divergent[part].tolist() == labels
        for n, token in enumerate(answer):
            seen = [*prompt, *answer[:n]]
            shown, said = (plain_logits(model, seen, vocab) for model in (small, large))
            assert torch.equal(rows.hidden_states[i], plain_hidden(seen).half())
            assert torch.equal(rows.token_embeddings[i], plain_embedding(others[n]).half())
            assert torch.equal(rows.top_logits[i], shown.sort(descending=True)[0][:3].half())
            assert rows.small_logprob[i].item() == shown.log_softmax(-1)[token].item()
            assert rows.large_logprob[i].item() == said.log_softmax(-1)[token].item()
            assert rows.entropy[i].item() == normalized_entropy(shown[None]).item()
            i += 1
    assert i == len(rows)


def test_an_answer_ends_where_the_context_is_full(tmp_path: Path) -> None:
    scripted = scripted_pair(context=16, stop_ids=frozenset())
    collect(scripted.pair, ["ten chars?"], tmp_path, replace(SETTINGS, max_tokens=99))
    assert len(load_rows(tmp_path)) == 6


@pytest.mark.parametrize("length", [40, 41])
def test_a_prompt_that_leaves_no_room_is_named(tmp_path: Path, length: int) -> None:
    prompts = ["fits", "fits", "fits", "x" * length]
    with pytest.raises(PairError, match=f"prompt 3 has {length} tokens, room for none more"):
        collect(scripted_pair().pair, prompts, tmp_path, SETTINGS)
    assert not list(tmp_path.iterdir()), "nothing is begun"


@pytest.mark.parametrize(
    ("model", "shows", "said"),
    [
        ("small", {"hidden_states", "token_embedding"}, "shows no logits"),
        ("large", {"hidden_states", "token_embedding"}, "shows no logits"),
        ("small", {"logits", "token_embedding"}, "no hidden states or token embeddings"),
        ("small", {"logits", "hidden_states"}, "no hidden states or token embeddings"),
    ],
)
def test_an_engine_that_shows_too_little(
    tmp_path: Path, model: str, shows: set[str], said: str
) -> None:
    scripted = scripted_pair()
    getattr(scripted, model).shows = frozenset(shows)
    with pytest.raises(PairError, match=said):
        collect(scripted.pair, PROMPTS, tmp_path, SETTINGS)
    assert not list(tmp_path.glob("rows-*"))


def test_the_large_model_needs_to_show_logits_only(tmp_path: Path) -> None:
    scripted = scripted_pair()
    scripted.large.shows = frozenset({"logits"})
    assert len(collect(scripted.pair, PROMPTS, tmp_path, SETTINGS)) == 3


# --- shards


def test_shards_of_as_many_prompts_as_run_side_by_side(tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []
    scripted = scripted_pair()
    paths = collect(
        scripted.pair, PROMPTS, tmp_path, SETTINGS, progress=lambda *args: seen.append(args)
    )
    names = [f"rows-0000{n}.safetensors" for n in range(3)]
    assert [path.name for path in paths] == names
    assert seen == list(zip([3, 3, 2], names, strict=True))
    assert sorted(contents(tmp_path)) == ["collected.json", *names]
    rows = load_rows(tmp_path)
    assert rows.prompts.unique().tolist() == list(range(8))
    assert rows.hidden_states.shape == (len(rows), HIDDEN)
    assert scripted.released()


@pytest.mark.parametrize("failure", [RuntimeError("the engine died"), KeyboardInterrupt()])
@pytest.mark.parametrize("model", ["small", "large"])
@pytest.mark.parametrize("step", [1, 20, 33])
def test_a_stopped_run_goes_on_to_the_same_bytes(
    tmp_path: Path, model: str, step: int, failure: BaseException
) -> None:
    collect(scripted_pair().pair, PROMPTS, tmp_path / "whole", SETTINGS)
    scripted = scripted_pair()
    engine = getattr(scripted, model)
    engine.fails_at, engine.failure = step, failure
    with pytest.raises(type(failure)):
        collect(scripted.pair, PROMPTS, tmp_path / "stopped", SETTINGS)
    before = contents(tmp_path / "stopped")
    assert len(before) < 4
    collect(scripted_pair().pair, PROMPTS, tmp_path / "stopped", SETTINGS)
    after = contents(tmp_path / "stopped")
    assert after == contents(tmp_path / "whole")
    assert before.items() <= after.items()


@pytest.mark.parametrize("number", range(3))
def test_a_missing_shard_is_made_again_and_no_other(tmp_path: Path, number: int) -> None:
    collect(scripted_pair().pair, PROMPTS, tmp_path, SETTINGS)
    before = contents(tmp_path)
    (tmp_path / f"rows-0000{number}.safetensors").unlink()
    scripted = scripted_pair()
    collect(scripted.pair, PROMPTS, tmp_path, SETTINGS)
    assert contents(tmp_path) == before
    assert scripted.small.steps > 0
    scripted = scripted_pair()
    collect(scripted.pair, PROMPTS, tmp_path, SETTINGS)
    assert scripted.small.steps + scripted.large.steps == 0, "all was there"


@pytest.mark.parametrize(
    "changed",
    [
        {"settings": replace(SETTINGS, max_tokens=11)},
        {"settings": replace(SETTINGS, horizon=4)},
        {"settings": replace(SETTINGS, top_k=6)},
        {"prompts": PROMPTS[:-1]},
        {"prompts": [*PROMPTS[:-1], "another?"]},
        {"prompts": PROMPTS[::-1]},
        {"pair": scripted_pair(fingerprints=("small-2", "large-1"))},
        {"pair": scripted_pair(fingerprints=("small-1", "large-2"))},
        {"pair": scripted_pair(sequences=4)},
        {"pair": scripted_pair(context=17)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_directory_begun_otherwise_is_left_alone(tmp_path: Path, changed: Any) -> None:
    collect(scripted_pair().pair, PROMPTS, tmp_path, SETTINGS)
    (tmp_path / "rows-00001.safetensors").unlink()
    before = contents(tmp_path)
    scripted: Scripted = changed.get("pair", scripted_pair())
    with pytest.raises(SettingsChangedError, match="was begun with"):
        collect(
            scripted.pair,
            changed.get("prompts", PROMPTS),
            tmp_path,
            changed.get("settings", SETTINGS),
        )
    assert contents(tmp_path) == before


# --- parts of rows


@given(st.lists(st.integers(0, 12), min_size=2, max_size=60), st.floats(0.01, 0.99))
def test_no_prompt_is_in_both_parts(prompts: list[int], share: float) -> None:
    rows = numbered(prompts)
    first, second = rows.split_prompts(share)
    assert not set(first.prompts.tolist()) & set(second.prompts.tolist())
    assert sorted([*first.tokens.tolist(), *second.tokens.tolist()]) == list(range(len(prompts)))
    wanted = max(1, round(share * len(set(prompts))))
    assert len(set(second.prompts.tolist())) == wanted
    again, _ = rows.split_prompts(share)
    assert torch.equal(again.tokens, first.tokens)


def numbered(prompts: list[int]) -> Rows:
    numbers = torch.arange(len(prompts))
    wide = numbers[:, None]
    return Rows(
        wide,
        wide,
        wide,
        numbers,
        numbers,
        numbers,
        numbers,
        numbers,
        numbers,
        torch.tensor(prompts),
    )


@given(st.integers(1, 50), st.integers(1, 60))
def test_chunks_are_the_rows_in_order(count: int, size: int) -> None:
    parts = list(numbered([0] * count).chunks(size))
    assert [token for part in parts for token in part.tokens.tolist()] == list(range(count))
    assert all(len(part) == size for part in parts[:-1])


def test_no_rows(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="run `trrouters collect` first"):
        load_rows(tmp_path)
