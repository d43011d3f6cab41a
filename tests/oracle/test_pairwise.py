"""Pairwise combinations: any two values meet."""

from __future__ import annotations

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from tests.support.pairwise import pairwise

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(SIZES)
def test_every_two_values_meet(sizes: list[int]) -> None:
    rows = pairwise(*(range(size) for size in sizes))
    for one, other in combinations(range(len(sizes)), 2):
        met = {(row[one], row[other]) for row in rows}
        assert met == set(product(range(sizes[one]), range(sizes[other])))


@given(SIZES)
def test_no_row_is_in_vain(sizes: list[int]) -> None:
    rows = pairwise(*(range(size) for size in sizes))
    assert len(set(rows)) == len(rows)
    assert len(rows) <= len(list(product(*map(range, sizes))))


def test_rows_that_must_be_among_them() -> None:
    rows = pairwise("ab", "cd", first=[("b", "d")])
    assert rows[0] == ("b", "d")
    assert sorted(rows) == [("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")]
