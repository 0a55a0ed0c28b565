"""A merge fits its budget of memory, or says what it needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drystone.errors import UsageError
from drystone.rows.fan_in import plan_fan_in

_MB = 1 << 20


def test_two_hundred_small_files_fit_at_once() -> None:
    """The merge that minor compaction is about needs one pass within the default budget."""
    plan = plan_fan_in(200, row_bytes=93, open_bytes=1_400_000, memory=512 * _MB, row_group_rows=131_072)
    assert (plan.fan_in, plan.passes) == (200, 1)
    assert plan.batch_rows >= 1024


@given(st.integers(1, 5000), st.integers(1, 4000), st.integers(1000, 8 * _MB), st.integers(64 * _MB, 4096 * _MB))
def test_a_plan_keeps_within_the_budget(inputs: int, row_bytes: int, open_bytes: int, memory: int) -> None:
    """What is open and buffered at once is less than the budget; passes follow from the fan-in."""
    try:
        plan = plan_fan_in(inputs, row_bytes, open_bytes, memory, row_group_rows=16_384)
    except UsageError:
        assert memory < 3 * 16_384 * row_bytes + 2 * (open_bytes + 1024 * (5 * row_bytes + 40)) + 1
        return
    assert 1 <= plan.fan_in <= inputs
    assert plan.fan_in * (open_bytes + plan.batch_rows * 3 * row_bytes) <= memory
    assert plan.fan_in**plan.passes >= inputs
    assert plan.passes == 1 or plan.fan_in ** (plan.passes - 1) < inputs


def test_several_passes_share_the_inputs_evenly() -> None:
    """Where one pass does not do, as few inputs are open at once as the passes allow, and batches are large."""
    plan = plan_fan_in(200, row_bytes=63, open_bytes=6_000_000, memory=512 * _MB, row_group_rows=131_072)
    assert (plan.fan_in, plan.passes) == (15, 2)
    assert plan.batch_rows > 20_000


def test_a_budget_that_is_too_small_is_refused() -> None:
    """Not even two inputs: the error says how much memory it takes and what to change."""
    with pytest.raises(UsageError, match=r"needs [\d,]+ bytes.*may use 1,048,576.*memory_per_task"):
        plan_fan_in(2, row_bytes=1000, open_bytes=_MB, memory=_MB, row_group_rows=131_072)


def test_large_rows_are_handed_on_a_few_at_a_time() -> None:
    """A row group of them would not fit: rows of a megabyte are merged within the default budget all the same."""
    plan = plan_fan_in(8, row_bytes=_MB, open_bytes=4 * _MB, memory=512 * _MB, row_group_rows=131_072)
    assert plan.out_rows == 512 // 12
    assert 3 * plan.out_rows + plan.fan_in * (4 + 5 * plan.batch_rows) <= 512
    assert plan.fan_in > 1
