"""What is said of a group before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.trsched.groups import profile_config
from trsched.errors import ConfigError
from trsched.plan.check import GroupPlan, check_group
from trsched.plan.config import group_config


def models(*overrides: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"engine": "profile", "name": f"m{i}", "step_ms": [1.0], **override}
        for i, override in enumerate(overrides)
    ]


def check(
    models: list[dict[str, Any]], router: str = "bernoulli", settings: Any = None, **group: Any
) -> GroupPlan:
    return check_group(
        group_config(
            {
                "name": "test",
                "models": models,
                "router": {"name": router, "settings": settings or {}},
                "context": 256,
                "kv_memory": "64MiB",
                **group,
            }
        )
    )


def refused(*args: Any, **kwargs: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        check(*args, **kwargs)
    return caught.value


def test_plan() -> None:
    plan = check(models({}, {"kv_bytes_per_token": 3072}), max_active=12)
    assert (plan.max_active, plan.kv.sequences, plan.kv.context) == (12, 12, 256)
    assert plan.kv.bytes_per_model == (12 * 256 * 1024, 12 * 256 * 3072)
    assert [router.index for router in plan.routers] == [0, 1]
    assert plan.paths == (None, None)
    lines = "\n".join(plan.lines())
    for said in ("bernoulli", "m0", "m1", "12 × 256 tokens", "up to 12 requests"):
        assert said in lines


def test_as_many_active_as_the_kv_holds_by_default() -> None:
    plan = check(models({}, {}), kv_memory="1MiB", context=128)
    assert plan.max_active == plan.kv.sequences == 4


def test_more_active_than_the_kv_holds_at_full_context() -> None:
    plan = check(models({}, {}), kv_memory="1MiB", context=128, max_active=9)
    assert (plan.max_active, plan.kv.sequences) == (9, 4)


def test_different_vocabularies_name_both_models() -> None:
    error = refused(models({"name": "small"}, {"name": "large", "vocab_size": 300}))
    assert error.field == "models[1]"
    assert "'large' and 'small' have different vocabularies" in str(error)


def test_context_longer_than_a_model_was_made_for() -> None:
    error = refused(models({}, {}), context=1 << 21, kv_memory="100GiB")
    assert error.field == "context"
    assert "'m0' was made for 1048576" in str(error)


def test_budget_too_small() -> None:
    error = refused(models({}, {}), kv_memory="256KiB")
    assert error.field == "kv_memory"
    assert "cannot hold one request of 256 tokens" in str(error)


def test_threshold_that_can_never_be_reached() -> None:
    error = refused(models({}, {"threshold": 5}), max_active=4)
    assert error.field == "models[1].threshold"
    error = refused(models({}, {"threshold": 5}), kv_memory="1MiB", context=128, max_active=9)
    assert error.field == "models[1].threshold"
    assert "KV holds 4" in str(error)


def test_thresholds_that_deadlock() -> None:
    error = refused(models({"threshold": 3}, {"threshold": 3}), max_active=4)
    assert error.field == "models[].threshold"
    assert "[3, 3] can deadlock even with all 4 requests active" in str(error)
    check(models({"threshold": 3}, {"threshold": 2}), max_active=4)


def test_output_that_an_engine_does_not_have() -> None:
    error = refused(models({}, {"name": "sleeper"}), "r_stitch")
    assert error.field == "router.name"
    assert "'r_stitch' needs logits, which the profile engine of 'm0' does not have" in str(error)


def test_unknown_router() -> None:
    error = refused(models({}, {}), "r_switch")
    assert error.field == "router.name"
    assert "bernoulli" in str(error)


def test_router_settings() -> None:
    error = refused(models({}, {}), settings={"p": 2})
    assert error.field == "router.settings"
    assert "p must be a probability" in str(error)


@pytest.mark.parametrize("router", ["me", "fixed"])
def test_router_without_which_no_response_may_go_on(router: str) -> None:
    error = refused(models({}, {}), router, on_router_error="continue")
    assert error.field == "on_router_error"
    assert f"'{router}'" in str(error)
    check(models({}, {}), router, on_router_error="fail")
    check(models({}, {}), "bernoulli", on_router_error="continue")


def test_router_for_another_number_of_models() -> None:
    error = refused(models({}, {}, {}))
    assert "wants 2 models, the group has 3" in str(error)


def test_missing_file() -> None:
    llama = {"engine": "llamacpp", "name": "large", "path": "/nowhere/large.gguf"}
    error = refused([*models({}), llama])
    assert error.field == "models[1].path"
    assert "/nowhere/large.gguf" in str(error)


@pytest.mark.parametrize(
    "content",
    [b"", b"not a model", b"GGUF", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64, b"\0" * 5000],
    ids=["empty", "text", "magic alone", "impossible counts", "zeros"],
)
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("llama_cpp")
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    llama = {"engine": "llamacpp", "name": "large", "path": str(path)}
    error = refused([*models({}), llama])
    assert error.field == "models[1].path"
    assert str(path) in str(error)


def test_groups_of_the_tests_are_good() -> None:
    plan = check_group(profile_config("me", models=3))
    assert [router.n_models for router in plan.routers] == [3, 3, 3]
    assert plan.max_active == 8
