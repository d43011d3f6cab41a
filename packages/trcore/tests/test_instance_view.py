"""`InstanceView`: columns that are the view's own memory."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import trcore
from packages.trcore.tests.reference_assign import COLUMNS, PlainView


def test_columns_have_their_types_and_begin_as_documented() -> None:
    view, plain = trcore.InstanceView(5), PlainView(5)
    assert len(view) == 5
    for name, kind in COLUMNS.items():
        column = getattr(view, name)
        assert column.dtype == kind, name
        assert column.shape == (5,)
        np.testing.assert_array_equal(column, getattr(plain, name), name)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_written_in_place(name: str) -> None:
    view = trcore.InstanceView(4)
    getattr(view, name)[2] = 1
    assert getattr(view, name)[2] == 1
    assert np.shares_memory(getattr(view, name), getattr(view, name))


def test_a_column_outlives_its_view() -> None:
    column = trcore.InstanceView(1000).running
    gc.collect()
    column[:] = 7
    assert column.sum() == 7000


def test_accounts_are_added_and_taken_away() -> None:
    view = trcore.InstanceView(2)
    view.add(1, running=1, waiting=2, pending_decode=300, pending_prefill=4)
    view.add(1, running=-1, pending_decode=-299)
    assert view.running.tolist() == [0, 0]
    assert view.waiting.tolist() == [0, 2]
    assert view.pending_decode.tolist() == [0, 1]
    assert view.pending_prefill.tolist() == [0, 4]


@pytest.mark.parametrize("instance", [-1, 2])
def test_there_is_no_such_instance(instance: int) -> None:
    with pytest.raises(IndexError, match="instance: there is no"):
        trcore.InstanceView(2).add(instance, running=1)


@pytest.mark.parametrize("instances", [-1, 0, 2**16 + 1])
def test_too_few_or_too_many_instances(instances: int) -> None:
    with pytest.raises(ValueError, match="instances: must be 1 to"):
        trcore.InstanceView(instances)
