"""`--set KEY=VALUE`."""

from __future__ import annotations

import pytest

from trsched.errors import ConfigError
from trserve.settings.changes import apply_changes, parse_change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("a=2", {"a": 2, "l": [{"x": 1}]}),
        ("b.c.d=1e-2", {"a": 1, "b": {"c": {"d": 0.01}}, "l": [{"x": 1}]}),
        ("l[0].x=", {"a": 1, "l": [{"x": None}]}),
        ("l.0.x={y: [1, 2]}", {"a": 1, "l": [{"x": {"y": [1, 2]}}]}),
        ("a=x=y", {"a": "x=y", "l": [{"x": 1}]}),
    ],
)
def test_set(change, expected):
    data = {"a": 1, "l": [{"x": 1}]}
    assert apply_changes(data, [parse_change(change)]) == expected
    assert data == {"a": 1, "l": [{"x": 1}]}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("novalue", "--set"),
        ("=3", "--set"),
        ("a..b=3", "--set"),
        ("a=[", "--set a"),
        ("l[1].x=2", "--set l[1]"),
        ("l.x=2", "--set l[x]"),
        ("a.b=2", "--set a.b"),
    ],
)
def test_impossible_set(change, field):
    with pytest.raises(ConfigError) as caught:
        apply_changes({"a": 1, "l": [{"x": 1}]}, [parse_change(change)])
    assert caught.value.field == field
