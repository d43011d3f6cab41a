"""R2R, CITER and Co-LLM over the public interface, against their networks in plain numpy."""

# ruff: noqa: E402  (without torch this module is skipped before it imports it)

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch", reason="trrouters[torch] is not installed: no torch")
pytest.importorskip("safetensors", reason="trrouters[torch] is not installed: no safetensors")

from tests.support.trrouters.seen_request import SeenRequest
from tests.support.trrouters.tiny_checkpoints import (
    ARCHITECTURES,
    HIDDEN,
    NETWORKS,
    VOCAB,
    context,
    picked,
    plain_scores,
    saved,
    some_rows,
    step_showing,
    tiny_tensors,
)
from trrouters import (
    BaseRouter,
    LogitsOutput,
    RouterConfigError,
    RouterContext,
    RouteResult,
    create_router,
)
from trrouters.algorithms.r_stitch import normalized_entropy

TRAINED = sorted(NETWORKS)
PLAIN_R2R = {**ARCHITECTURES["r2r"], "normalize": False}
SAME = 1e-5  # largest difference of a row's score in two batches: float32 adds in another order


class Scoring(Protocol):
    def scores(self, result: RouteResult) -> Any: ...


def scores(router: BaseRouter, seen: LogitsOutput, count: int) -> Any:
    found = cast("Scoring", router).scores(step_showing(seen, count))
    assert found.shape == (count,)
    assert found.dtype == torch.float32
    return found


def goes(router: BaseRouter, seen: LogitsOutput, count: int) -> list[int]:
    found = router.route(step_showing(seen, count))
    assert found.shape == (count,)
    assert found.dtype == torch.long
    return [int(destination) for destination in found]


def create(algorithm: str, index: int = 0, **settings: Any) -> BaseRouter:
    return create_router(algorithm, context(index), settings)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("routers")
    return {name: saved(root / name, name) for name in TRAINED}


# --- scores


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("algorithm", "architecture"),
    [
        ("r2r", ARCHITECTURES["r2r"]),
        ("r2r", PLAIN_R2R),
        ("r2r", {**PLAIN_R2R, "widths": [10]}),
        ("citer", ARCHITECTURES["citer"]),
        ("citer", {"hidden_size": HIDDEN}),  # the paper's 2h, h
        ("co_llm", ARCHITECTURES["co_llm"]),
    ],
)
def test_scores_are_those_of_the_papers_networks(
    tmp_path: Path, algorithm: str, architecture: dict[str, Any], seed: int
) -> None:
    tensors = tiny_tensors(algorithm, seed, architecture)
    folder = saved(tmp_path, algorithm, architecture=architecture, tensors=tensors)
    seen = some_rows(40, seed)
    expected = plain_scores(algorithm, tensors, seen)
    assert expected.std() > 0.004, "rows that differ"
    found = scores(create(algorithm, checkpoint=folder), seen, 40)
    assert found.numpy() == pytest.approx(expected, abs=1e-6)


def test_citer_without_widths_has_layers_of_2h_and_h() -> None:
    tensors = tiny_tensors("citer", architecture={"hidden_size": HIDDEN})
    shapes = [list(t.shape) for name, t in tensors.items() if t.dim() == 2]
    assert shapes == [[2 * HIDDEN, HIDDEN], [HIDDEN, 2 * HIDDEN], [1, HIDDEN]]


ROWS = st.lists(st.integers(0, 49), min_size=1, max_size=32)


@pytest.mark.parametrize("algorithm", TRAINED)
def test_the_score_of_a_row_does_not_depend_on_its_batch(
    folders: dict[str, str], algorithm: str
) -> None:
    router = create(algorithm, checkpoint=folders[algorithm])
    seen = some_rows(50)
    alone = torch.cat([scores(router, picked(seen, [i]), 1) for i in range(50)])

    @given(ROWS)
    def check(chosen: list[int]) -> None:
        together = scores(router, picked(seen, chosen), len(chosen))
        assert float((together - alone[chosen]).abs().max()) <= SAME

    check()


@given(ROWS)
def test_the_entropy_of_a_row_does_not_depend_on_its_batch(chosen: list[int]) -> None:
    logits = some_rows(50).next_token_logits
    assert logits is not None
    alone = torch.cat([normalized_entropy(logits[i : i + 1]) for i in chosen])
    together = normalized_entropy(logits[chosen])
    assert float((together - alone).abs().max()) <= SAME


# --- decisions


@pytest.mark.parametrize("algorithm", TRAINED)
def test_which_side_of_the_threshold_leaves(folders: dict[str, str], algorithm: str) -> None:
    """R2R: score ≥ θ. CITER: score < threshold. Co-LLM: score > η. Equality included."""
    seen = some_rows(20)
    found = scores(create(algorithm, checkpoint=folders[algorithm]), seen, 20).tolist()
    for threshold in [0.0, 0.5, 1.0, *found]:
        router = create(algorithm, checkpoint=folders[algorithm], threshold=threshold)
        leaves = {
            "r2r": [score >= threshold for score in found],
            "citer": [score < threshold for score in found],
            "co_llm": [score > threshold for score in found],
        }[algorithm]
        assert goes(router, seen, 20) == leaves


@pytest.mark.parametrize("algorithm", TRAINED)
def test_the_threshold_is_the_checkpoints_unless_one_is_set(tmp_path: Path, algorithm: str) -> None:
    seen = some_rows(30)
    folder = saved(tmp_path, algorithm)
    median = float(scores(create(algorithm, checkpoint=folder), seen, 30).median())
    folder = saved(tmp_path, algorithm, threshold=median)
    decided = goes(create(algorithm, checkpoint=folder), seen, 30)
    assert decided == goes(create(algorithm, checkpoint=folder, threshold=median), seen, 30)
    assert 0 < sum(decided) < 30
    assert len(set(goes(create(algorithm, checkpoint=folder, threshold=0.0), seen, 30))) == 1


@pytest.mark.parametrize("algorithm", TRAINED)
def test_the_large_model_returns_at_once_and_reads_nothing(
    folders: dict[str, str], algorithm: str
) -> None:
    router = create(algorithm, 1, checkpoint=folders[algorithm])
    assert router.needs == frozenset()
    assert goes(router, LogitsOutput(), 4) == [1] * 4


def test_the_small_models_engine_shows_what_the_network_reads(folders: dict[str, str]) -> None:
    needs = {name: create(name, checkpoint=folders[name]).needs for name in TRAINED}
    assert needs == {
        "r2r": {"logits", "hidden_states", "token_embedding"},
        "citer": {"hidden_states"},
        "co_llm": {"hidden_states"},
    }
    assert create("co_llm", threshold=0.3).needs == {"extra_logits"}


@pytest.mark.parametrize("algorithm", TRAINED)
def test_the_small_models_token_is_dropped_and_the_large_ones_stands(
    folders: dict[str, str], algorithm: str
) -> None:
    req = SeenRequest([1, 2], [50, 51, 52], peer_locs=(0, 3), ends=True)
    from_small = create(algorithm, checkpoint=folders[algorithm]).send(req)
    assert (list(from_small.token_ids), from_small.loc, from_small.finished) == ([51], 4, False)
    from_large = create(algorithm, 1, checkpoint=folders[algorithm]).send(req)
    assert (list(from_large.token_ids), from_large.loc, from_large.finished) == ([51, 52], 5, True)


# --- Co-LLM's two places for the deferral row


@pytest.mark.parametrize("seed", range(4))
def test_a_row_of_the_models_head_decides_as_the_same_row_in_a_checkpoint(
    tmp_path: Path, seed: int
) -> None:
    tensors = tiny_tensors("co_llm", seed)
    seen = some_rows(50, seed)
    assert seen.hidden_states is not None
    outputs = seen.hidden_states @ tensors["row.weight"].T + tensors["row.bias"]
    unread = torch.full_like(outputs, 9.0)  # a model may have other rows before the last
    own = LogitsOutput(extra_logits=torch.cat([unread, outputs], dim=1))
    folder = saved(tmp_path, "co_llm", seed)
    for threshold in (0.2, 0.4, 0.5, 0.7):
        in_head = create("co_llm", threshold=threshold)
        apart = create("co_llm", checkpoint=folder, threshold=threshold)
        near = np.abs(scores(apart, seen, 50).numpy() - threshold) < SAME
        pairs = zip(goes(in_head, own, 50), goes(apart, seen, 50), near, strict=True)
        assert all(one == other or close for one, other, close in pairs)
        assert sum(near) < 3


@pytest.mark.parametrize("settings", [{"threshold": 0.5}, {"threshold": 0.5, "tokens_per_call": 9}])
def test_co_llm_decides_every_token_whatever_tokens_per_call(settings: dict[str, Any]) -> None:
    seen = LogitsOutput(extra_logits=torch.tensor([[-3.0, 3.0], [3.0, -3.0], [0.0, 0.0]]))
    assert goes(create("co_llm", **settings), seen, 3) == [1, 0, 0]


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("value", [0, -1, 1.5, "two", None])
def test_co_llm_refuses_tokens_per_call(index: int, value: Any) -> None:
    with pytest.raises(RouterConfigError, match="tokens_per_call"):
        create("co_llm", index, threshold=0.5, tokens_per_call=value)


def test_co_llm_without_a_checkpoint_takes_a_threshold() -> None:
    with pytest.raises(RouterConfigError, match="threshold is needed"):
        create("co_llm")


# --- settings


@pytest.mark.parametrize("algorithm", TRAINED)
@pytest.mark.parametrize("threshold", [-0.1, 1.5, math.nan, math.inf, "low"])
def test_a_threshold_that_cannot_be_is_named(
    folders: dict[str, str], algorithm: str, threshold: Any
) -> None:
    with pytest.raises(RouterConfigError, match="threshold"):
        create(algorithm, checkpoint=folders[algorithm], threshold=threshold)


@pytest.mark.parametrize("algorithm", ["r2r", "citer"])
def test_the_checkpoint_must_be_given(algorithm: str) -> None:
    with pytest.raises(RouterConfigError, match="checkpoint"):
        create(algorithm)


def test_r2r_refuses_a_vocabulary_smaller_than_the_logits_it_reads(
    folders: dict[str, str],
) -> None:
    settings = {"checkpoint": folders["r2r"]}
    with pytest.raises(RouterConfigError, match="reads 9 logits, the models have 8"):
        create_router("r2r", RouterContext(0, 2, vocab_size=8), settings)
    create_router("r2r", RouterContext(0, 2, VOCAB), settings)
