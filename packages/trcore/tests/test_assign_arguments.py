"""What `trcore.assign` refuses, and that it then leaves everything as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trcore
from packages.trcore.tests.assign_cases import plain


def refused(columns: dict[str, Any] | None = None, **arguments: Any) -> str:
    """The message for two instances, two requests and one model."""
    case = plain(2, 2)
    view = case.on(trcore.InstanceView(2))
    for name, value in (columns or {}).items():
        getattr(view, name)[1] = value
    chosen = np.full(2, -9, np.int32)
    given = {
        "weights": case.weights,
        "prompt_tokens": case.prompt_tokens,
        "max_tokens": case.max_tokens,
        "quality": case.quality,
        "length": case.length,
        "chosen": chosen,
        "tokens": np.empty(2, np.int32),
    }
    with pytest.raises(ValueError, match=r".") as error:
        trcore.assign(view, trcore.AssignRules([0.5], [100.0]), **(given | arguments))
    assert chosen.tolist() == [-9, -9]
    assert view.last_assigned.tolist() == [0, 0]
    return str(error.value)


READ_ONLY = np.zeros(2, np.int32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights", (0.5, 0.5)),
        ("weights", "abc"),
        ("weights", (0.5, 0.4, 0.2)),
        ("weights", (1.5, -0.5, 0.0)),
        ("weights", (np.nan, 0.5, 0.5)),
        ("weights", np.full((3, 3), 1 / 3)),
        ("weights", np.full(3, 1 / 3, np.float32)),
        ("prompt_tokens", np.zeros(2, np.int64)),
        ("prompt_tokens", np.array([-1, 0], np.int32)),
        ("prompt_tokens", [1, 2]),
        ("max_tokens", np.array([1, 0], np.int32)),
        ("max_tokens", np.ones(3, np.int32)),
        ("quality", np.zeros((2, 1))),
        ("quality", np.zeros((2, 2), np.float32)),
        ("quality", np.zeros((4, 1), np.float32)[::2]),
        ("length", np.zeros(2, np.float32)),
        ("chosen", np.zeros(1, np.int32)),
        ("chosen", READ_ONLY),
        ("tokens", np.zeros(2)),
        ("needs", np.zeros(2, np.int32)),
        ("models", np.ones((2, 2), np.bool_)),
        ("instances", np.ones((2, 3), np.bool_)),
        ("instances", np.ones((1, 2), np.bool_)),
        ("max_usd", np.array([1.0, np.nan])),
        ("max_seconds", np.array([1.0, -1.0])),
        ("terms", np.zeros((2, 5))),
        ("scores", np.zeros((2, 1))),
    ],
)
def test_an_argument_is_wrong(name: str, value: Any) -> None:
    assert refused(**{name: value}).startswith(f"{name}: must ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", 1),
        ("model", -1),
        ("input_price", -0.1),
        ("input_price", np.nan),
        ("output_price", 2e9),
        ("prior_tpot_s", 0),
        ("prior_tpot_s", np.inf),
        ("prefill_rate", -1),
        ("prefill_rate", np.inf),
    ],
)
def test_an_open_row_holds_what_it_must_not(name: str, value: Any) -> None:
    message = refused({name: value})
    assert message.startswith(f"{name}: must be ")
    assert message.endswith("(row 1)")


def test_a_closed_row_may_hold_anything() -> None:
    case = plain(3, 2)
    case.columns["healthy"][1] = 0
    for name in ("input_price", "output_price", "prior_tpot_s", "prefill_rate"):
        case.columns[name] = np.array([1.0, np.nan, 1.0])
    case.columns["model"][1] = 99
    done = case.in_core()
    assert 1 not in done.chosen
    assert np.isneginf(done.scores[:, 1]).all()
    assert np.isfinite(done.scores[:, [0, 2]]).all()


@pytest.mark.parametrize(
    ("arguments", "options", "name"),
    [
        (([], []), {}, "prior_quality"),
        (([0.5], [1.0, 2.0]), {}, "prior_length"),
        (([np.nan], [1.0]), {}, "prior_quality"),
        (([1e300], [1.0]), {}, "prior_quality"),
        (([0.5], [0.0]), {}, "prior_length"),
        (([0.5], [1.0]), {"quality_norm": "max"}, "quality_norm"),
        (([0.5], [1.0]), {"order": "random"}, "order"),
        (([0.5], [1.0]), {"on_no_candidate": "any"}, "on_no_candidate"),
    ],
)
def test_rules_that_make_no_sense(arguments: Any, options: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: must"):
        trcore.AssignRules(*arguments, **options)


def test_no_requests_are_an_empty_batch() -> None:
    case = plain(2, 0)
    assert case.in_core().counted["unassigned"] == 0
