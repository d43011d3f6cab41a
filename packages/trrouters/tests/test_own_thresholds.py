"""Requests with a threshold of their own, beside requests without."""

# ruff: noqa: E402  (without torch this module is skipped before it imports it)

from __future__ import annotations

import inspect
import math
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="trrouters[torch] is not installed: no torch")
pytest.importorskip("safetensors", reason="trrouters[torch] is not installed: no safetensors")

from tests.support.trrouters.seen_request import SeenRequest
from tests.support.trrouters.tiny_checkpoints import NETWORKS, context, saved, some_rows
from trrouters import RouteResult, ThresholdSetting, create_router, router_class
from trrouters.algorithms.r_stitch import RStitch

COUNT = 12
SEEN = some_rows(COUNT)
ROUTERS = {"r_stitch": "tau", "bernoulli": "p", **dict.fromkeys(NETWORKS, "threshold")}
VALUES = st.floats(0, 1)
OWN = st.lists(st.one_of(st.none(), VALUES), min_size=COUNT, max_size=COUNT)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Each router's settings besides the threshold."""
    root = tmp_path_factory.mktemp("routers")
    trained = {name: {"checkpoint": saved(root / name, name)} for name in NETWORKS}
    return dict.fromkeys(ROUTERS, cast("dict[str, Any]", {})) | trained


def step(thresholds: list[float | None]) -> RouteResult:
    requests = [
        SeenRequest([1, 2], [3], seed=seed, threshold=threshold)
        for seed, threshold in enumerate(thresholds)
    ]
    return RouteResult(requests, np.full(COUNT, 3, dtype=np.int64), SEEN)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("name", ROUTERS)
def test_each_is_routed_as_by_a_router_of_its_threshold(
    folders: dict[str, dict[str, Any]], name: str, index: int
) -> None:
    router = create_router(name, context(index), folders[name] | {ROUTERS[name]: 0.5})

    def went(configured: float, thresholds: list[float | None]) -> list[int]:
        setattr(router, ROUTERS[name], configured)
        return [int(destination) for destination in router.route(step(thresholds))]

    @given(VALUES, OWN)
    @settings(max_examples=30)
    def check(configured: float, own: list[float | None]) -> None:
        mixed = went(configured, own)
        for row, value in enumerate(own):
            alone = went(configured if value is None else value, [None] * COUNT)
            assert mixed[row] == alone[row]

    check()


@given(st.integers(0, COUNT - 1))
def test_a_score_equal_to_a_requests_threshold_is_on_the_same_side(row: int) -> None:
    """What a float32 score and the threshold of a request are compared in is float32."""
    router = RStitch(context(), tau=0.5)
    own: list[float | None] = [None] * COUNT
    own[row] = float(router.scores(step(own))[row])
    assert router.route(step(own))[row] == 0
    own[row] = math.nextafter(np.nextafter(np.float32(own[row]), np.float32(0)), 0)
    assert router.route(step(own))[row] == 1


def test_without_any_there_is_nothing_but_the_routers_number() -> None:
    router = RStitch(context(), tau=0.25)
    scores = torch.zeros(COUNT)
    assert router.thresholds(step([None] * COUNT), scores) == 0.25
    found = router.thresholds(step([None] * (COUNT - 1) + [0.5]), scores)
    assert torch.equal(cast("Any", found), torch.tensor([0.25] * (COUNT - 1) + [0.5]))


@pytest.mark.parametrize("name", ROUTERS)
def test_a_router_says_which_setting_it_is(folders: dict[str, dict[str, Any]], name: str) -> None:
    setting = router_class(name).threshold_setting
    assert setting is not None
    assert setting.name == ROUTERS[name]
    assert setting.name in inspect.signature(router_class(name)).parameters
    assert (setting.low, setting.high) == (0.0, 1.0)
    assert setting.meaning.endswith(".")
    router = create_router(name, context(), folders[name] | {setting.name: 0.125})
    assert router.threshold_value == 0.125


@pytest.mark.parametrize("name", ["me", "fixed"])
def test_routers_without_one(name: str) -> None:
    assert router_class(name).threshold_setting is None


def test_a_range_takes_its_ends_and_no_nonsense() -> None:
    setting = ThresholdSetting("x", 0.0, 2.0, "")
    taken = [0, 0.0, 1.5, 2.0]
    refused = [-1e-9, 2.1, math.nan, math.inf, -math.inf]
    assert [value for value in taken + refused if setting.allows(value)] == taken
