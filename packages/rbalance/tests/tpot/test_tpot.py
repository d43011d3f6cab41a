"""rbalance.tpot: the features, the three models, and heads on disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbalance.cluster import Tier
from rbalance.errors import ArtefactError, ConfigError, TrainingError
from rbalance.tpot.features import (
    FEATURES,
    STATE_COLUMN,
    STATE_FEATURES,
    feature_rows,
    unknown_state,
)
from rbalance.tpot.model import TpotModel, TpotQuery
from rbalance.tpot.online import LONGEST_S, OnlineTpot
from rbalance.tpot.record import TpotRecord, read_tpot_records
from rbalance.tpot.static import StaticTpot
from tests.support.rbalance.arrays import NAN, f32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rbalance.tpot.heads import TpotHeads


TIER = Tier(
    name="t", model="m", instances=0, price_in=1, price_out=1, tpot_s=0.01, prefill_rate=100
)


def query(state: NDArray[np.float32], now: float = 0.0) -> TpotQuery:
    return TpotQuery(state, 100.0, np.full(len(state), 200, np.float32), now)


def measured(count: int, seed: int, tiers: Sequence[str] = ("fast", "slow")) -> list[TpotRecord]:
    """Requests of instances whose TPOT grows with what runs and waits; half know no KV usage."""
    rng = np.random.default_rng(seed)
    records = []
    for number in range(count):
        tier = tiers[number % len(tiers)]
        state = unknown_state(1)[0]
        running, waiting = rng.integers(0, 32), rng.integers(0, 4)
        state[STATE_COLUMN["running"]] = running
        state[STATE_COLUMN["waiting"]] = waiting
        state[STATE_COLUMN["slots"]] = 32
        if number % 4 < 2:
            state[STATE_COLUMN["kv_usage"]] = running / 32
        base = 0.012 if tier == "fast" else 0.047
        tpot = base * (1 + 0.05 * running) * rng.uniform(0.97, 1.03)
        records.append(TpotRecord.of(tier, state, 100, 200, tpot))
    return records


def test_there_are_17_state_2_request_and_6_derived_features_with_names_of_their_own() -> None:
    assert (len(STATE_FEATURES), len(FEATURES)) == (17, 25)
    assert len({feature.name for feature in FEATURES}) == 25


def test_derived_features_follow_from_the_state() -> None:
    state = unknown_state(2)
    known = {"running": 4, "waiting": 30, "slots": 8, "pending_decode": 800, "context": 100}
    for name, value in {**known, "prefill_rate": 300, "decode_rate": 100}.items():
        state[0, STATE_COLUMN[name]] = value
    state[1, STATE_COLUMN["slots"]] = 8

    rows = feature_rows(state, f32([7, 8]), f32([70, 80]))

    np.testing.assert_array_equal(rows[:, :17], state)
    np.testing.assert_array_equal(rows[:, 17:19], [[7, 70], [8, 80]])
    np.testing.assert_allclose(rows[0, 19:], [0.5, 3.75, 200, 25, 8, 0.75])
    assert np.isnan(rows[1, 19:]).all()  # of an unknown nothing follows


def test_a_record_survives_json_and_unknown_is_left_out(tmp_path: Path) -> None:
    (record,) = measured(1, 0)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(msgspec.json.encode(record) + b"\n\n")
    (read,) = read_tpot_records(path)
    assert set(read.state) == {"running", "waiting", "slots", "kv_usage"}
    np.testing.assert_array_equal(read.state_row(), record.state_row())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tpot_s": 0}, "tpot_s"),
        ({"state": {"speed": 1}}, "state has no feature 'speed'"),
        ({"state": {"running": "3"}}, "float"),
        ({"prompt": -1}, "prompt"),
        ({"tier": ""}, "tier"),
    ],
)
def test_a_bad_row_is_named_with_its_line(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    good = {"tier": "t", "state": {"running": None}, "prompt": 1, "predicted": 2, "tpot_s": 0.01}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(good) + "\n" + json.dumps({**good, **changes}) + "\n")
    with pytest.raises(TrainingError, match=rf"rows.jsonl:2: .*{said}"):
        list(read_tpot_records(path))


def test_static_knows_the_tier_alone() -> None:
    model = StaticTpot([0.0123, 0.0474])
    found = model.seconds(query(unknown_state(2)))
    np.testing.assert_array_equal(found, [0.0123, 0.0474])
    found[:] = 0.0  # the caller's own
    model.observe(0, 100, 50.0, 1.0)
    np.testing.assert_array_equal(model.seconds(query(unknown_state(2))), [0.0123, 0.0474])


@pytest.mark.parametrize("wrong", [0.0, -1.0, NAN, float("inf")])
@pytest.mark.parametrize("model", [StaticTpot, OnlineTpot])
def test_a_prior_is_above_zero(model: type[StaticTpot] | type[OnlineTpot], wrong: float) -> None:
    with pytest.raises(ConfigError) as caught:
        model([0.01, wrong])
    assert caught.value.field == "tpot_s[1]"


def test_online_starts_at_the_prior_learns_and_forgets() -> None:
    model = OnlineTpot([0.01, 0.02], time_constant_s=5.0, prior_tokens=50.0)
    state = unknown_state(2)
    np.testing.assert_allclose(model.seconds(query(state, 3.0)), [0.01, 0.02])

    model.observe(0, 150, 150 * 0.05, now=10.0)
    just_then = model.seconds(query(state, 10.0))
    np.testing.assert_allclose(just_then, [(50 * 0.01 + 150 * 0.05) / 200, 0.02])

    later = model.seconds(query(state, 15.0))[0]
    assert 0.01 < later < just_then[0]
    np.testing.assert_allclose(model.seconds(query(state, 200.0)), [0.01, 0.02])


def test_online_follows_a_change_and_prefers_the_newer() -> None:
    model = OnlineTpot([0.02], time_constant_s=1.0, prior_tokens=1.0)
    for step in range(100):
        model.observe(0, 10, 10 * (0.02 if step < 50 else 0.06), now=step * 0.5)
    assert model.seconds(query(unknown_state(1), 50.0))[0] == pytest.approx(0.06, rel=0.05)


@pytest.mark.parametrize("kind", [StaticTpot, OnlineTpot])
def test_a_new_instance_inherits_nothing_of_the_old_one_at_its_number(
    kind: type[StaticTpot] | type[OnlineTpot],
) -> None:
    model: TpotModel = kind([0.01, 0.02, 1.0])
    model.observe(1, 500, 30.0, now=1.0)
    model.place(1, replace(TIER, tpot_s=0.03))
    model.place(2, replace(TIER, tpot_s=0.04))
    found = model.seconds(query(unknown_state(3), 1.0))
    np.testing.assert_array_equal(found, [0.01, 0.03, 0.04])


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(-5, 500),
            st.one_of(st.floats(), st.floats(0.001, 50.0)),
            st.floats(0.0, 1e6),
        )
    ),
    st.floats(0.0, 1e6),
)
def test_online_stays_finite_and_between_what_it_was_told(
    observed: list[tuple[int, int, float, float]], now: float
) -> None:
    prior = [0.01, 0.02, 0.03]
    model = OnlineTpot(prior)
    told = {instance: {value} for instance, value in enumerate(prior)}
    for instance, tokens, seconds, at in observed:
        model.observe(instance, tokens, seconds, at)
        if tokens >= 1 and 0.0 < seconds < LONGEST_S:
            told[instance].add(seconds / tokens)
    for instance, value in enumerate(model.seconds(query(unknown_state(3), now)).tolist()):
        low, high = min(told[instance]), max(told[instance])
        assert low * (1 - 1e-9) <= value <= high * (1 + 1e-9)


@pytest.mark.parametrize("field", ["time_constant_s", "prior_tokens"])
def test_online_refuses_settings_that_are_not_above_zero(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        OnlineTpot([0.01], **{field: 0.0})


class TestHeads:
    """What needs XGBoost."""

    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("xgboost", reason="rbalance[predict] is not installed: no xgboost")

    @pytest.fixture
    def heads(self) -> TpotHeads:
        from rbalance.tpot.heads import fit_heads

        return fit_heads(measured(800, 1))

    def test_a_head_beats_the_constant_on_rows_it_has_not_seen(self, heads: TpotHeads) -> None:
        assert set(heads.quality) == {"fast", "slow"}
        for quality in heads.quality.values():
            assert quality.rows == 400
            assert quality.error_s < 0.3 * quality.static_error_s

    def test_each_instance_is_asked_of_its_own_tier_whatever_the_order(
        self, heads: TpotHeads
    ) -> None:
        from rbalance.tpot.xgboost_tpot import XgboostTpot

        state = unknown_state(4)
        state[:, STATE_COLUMN["running"]] = [0, 20, 0, 20]
        state[:, STATE_COLUMN["waiting"]] = 0
        state[:, STATE_COLUMN["slots"]] = 32
        found = XgboostTpot(heads, ["slow", "fast", "fast", "slow"]).seconds(query(state))
        np.testing.assert_allclose(found, [0.047, 0.024, 0.012, 0.094], rtol=0.12)
        alone = XgboostTpot(heads, ["fast"]).seconds(query(state[1:2]))
        assert alone[0] == found[1]

    def test_an_instance_is_asked_of_its_tier_from_when_it_is_placed(
        self, heads: TpotHeads
    ) -> None:
        from rbalance.tpot.xgboost_tpot import XgboostTpot

        state = unknown_state(3)
        state[:, STATE_COLUMN["running"]] = [0, 20, 20]
        model = XgboostTpot(heads, ["slow", None, "slow"])
        before = model.seconds(query(state))
        assert np.isfinite(before).all()
        model.place(1, replace(TIER, name="fast"))
        model.place(2, replace(TIER, name="fast"))
        placed = XgboostTpot(heads, ["slow", "fast", "fast"])
        np.testing.assert_array_equal(model.seconds(query(state)), placed.seconds(query(state)))
        with pytest.raises(ConfigError, match=r"instances\[1\].tier: no TPOT head for 'huge'"):
            model.place(1, replace(TIER, name="huge"))
        np.testing.assert_array_equal(model.seconds(query(state)), placed.seconds(query(state)))

    def test_nothing_known_still_gives_a_finite_time(self, heads: TpotHeads) -> None:
        from rbalance.tpot.xgboost_tpot import XgboostTpot

        found = XgboostTpot(heads, ["slow", "fast"]).seconds(query(unknown_state(2)))
        assert np.isfinite(found).all()
        assert (found >= 1e-3).all()

    def test_a_tier_without_a_head_is_named(self, heads: TpotHeads) -> None:
        from rbalance.tpot.xgboost_tpot import XgboostTpot

        with pytest.raises(ConfigError, match=r"instances\[1\].tier: no TPOT head for 'huge'"):
            XgboostTpot(heads, ["fast", "huge"])

    def test_training_is_the_same_each_time(self, heads: TpotHeads) -> None:
        from rbalance.tpot.heads import fit_heads

        assert fit_heads(measured(800, 1)).quality == heads.quality

    @pytest.mark.parametrize(
        ("records", "said"),
        [([], "no measured request"), (measured(60, 0), "tier 'fast' has 30 rows")],
    )
    def test_too_little_to_learn_from_is_refused(
        self, records: list[TpotRecord], said: str
    ) -> None:
        from rbalance.tpot.heads import fit_heads

        with pytest.raises(TrainingError, match=said):
            fit_heads(records)

    def test_heads_say_the_same_once_written_and_read(
        self, heads: TpotHeads, tmp_path: Path
    ) -> None:
        from rbalance.tpot.heads_artefact import load_heads, save_heads
        from rbalance.tpot.xgboost_tpot import XgboostTpot

        save_heads(heads, tmp_path)
        read = load_heads(tmp_path)
        state = np.stack([record.state_row() for record in measured(40, 7)])
        tiers = ["fast", "slow"] * 20
        assert read.quality == heads.quality
        np.testing.assert_array_equal(
            XgboostTpot(read, tiers).seconds(query(state)),
            XgboostTpot(heads, tiers).seconds(query(state)),
        )

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("head-0.ubj", b"nonsense", "head-0.ubj is no XGBoost model"),
            ("head-1.ubj", None, "head-1.ubj: No such file"),
            ("tpot.json", b"{", "tpot.json"),
            ("tpot.json", b'{"format": "x", "features": [], "heads": []}', "format 'x'"),
            (
                "tpot.json",
                b'{"format": "rbalance-tpot-1", "features": ["a"], "heads": []}',
                "other features",
            ),
        ],
    )
    def test_broken_files_are_named(
        self, heads: TpotHeads, tmp_path: Path, name: str, content: bytes | None, said: str
    ) -> None:
        from rbalance.tpot.heads_artefact import load_heads, save_heads

        save_heads(heads, tmp_path)
        if content is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(ArtefactError, match=said):
            load_heads(tmp_path)
