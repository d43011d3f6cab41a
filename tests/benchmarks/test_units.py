"""Every unit of `benchmarks.units` runs, does what it is for, and has a figure."""

from __future__ import annotations

import re

import pytest

from benchmarks import units


def test_each_unit_has_its_figure() -> None:
    found = units.run_units(0.001, 1)
    figures = {unit["extra_info"]["figure"]: unit for unit in found}
    assert len(figures) == len(found)
    for unit in found:
        assert unit["stats"]["median"] > 0
        assert unit["extra_info"]["units"] >= 1
    told = re.findall(r"\w+_us\w*", units.__doc__ or "")
    assert {re.sub(r"\d+$", "N", name) for name in figures} == set(told)


def test_a_unit_that_fails_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "UNITS", units.ROOT / "benchmarks" / "no_such_folder")
    with pytest.raises(SystemExit, match="no_such_folder"):
        units.run_units(0.001, 1)
