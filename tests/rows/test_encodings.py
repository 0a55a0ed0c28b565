"""Encodings are chosen by what the rows look like, and only such that every reader knows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from drystone.rows.encodings import Encodings, choose_encodings

ROWS = 60_000


def chosen(**columns: pa.Array) -> Encodings:
    """Return the encodings for a row group of these columns."""
    return choose_encodings(pa.record_batch(columns))


def test_times_that_grow_slowly_are_stored_as_differences() -> None:
    """Sorted times, with gaps of random length, take a fraction of their bytes as differences."""
    gaps = np.random.default_rng(1).integers(0, 100, ROWS).cumsum()
    found = chosen(time=pa.array(gaps * 1_000_000, pa.timestamp("us", "UTC")))
    assert found.others == {"time": "DELTA_BINARY_PACKED"}


def test_numbers_from_a_short_list_have_a_dictionary() -> None:
    """Few values, far apart, in no order."""
    values = np.random.default_rng(2).integers(0, 1 << 40, 50)
    found = chosen(number=pa.array(values[np.random.default_rng(3).integers(0, 50, ROWS)]))
    assert found.dictionary == ("number",)


def test_constants_and_noise_stay_plain() -> None:
    """Where nothing is gained by it, nothing is encoded."""
    noise = np.random.default_rng(4)
    found = chosen(
        same=pa.array(np.full(ROWS, 7, np.int32)),
        noise=pa.array(noise.integers(-(1 << 62), 1 << 62, ROWS)),
        fraction=pa.array(noise.random(ROWS)),
        empty=pa.nulls(ROWS, pa.int32()),
    )
    assert found == Encodings((), {})


def test_values_that_do_not_return_get_no_dictionary() -> None:
    """A dictionary that looks small in a sample would grow with the row group."""
    values = np.random.default_rng(5).permutation(ROWS).astype(np.int64) * 1_000_003
    assert chosen(number=pa.array(values)).dictionary == ()


def test_strings_always_have_dictionaries_and_bools_never() -> None:
    """Whether the strings come as dictionary arrays or plain."""
    texts = pa.array([f"t{n % 9}" for n in range(100)])
    found = chosen(a=texts, b=texts.dictionary_encode(), c=pa.array([True, False] * 50))
    assert found == Encodings(("a", "b"), {})


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_hardly_any_rows_are_enough(rows: int) -> None:
    """A file may be empty, or nearly so."""
    found = chosen(a=pa.array([1] * rows, pa.int64()), s=pa.array(["x"] * rows, pa.string()))
    assert found.dictionary == ("s",)
