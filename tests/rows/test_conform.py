"""Blocks of a stream whose columns were added or widened are read as one; anything else is a clear error."""

from __future__ import annotations

import pyarrow as pa
import pytest

from drystone.errors import InputError
from drystone.rows.conform import conform, unify_files


def test_columns_are_united_by_name_and_widened() -> None:
    """Columns keep the order of their appearance; the wider of two numbers wins, in either order."""
    schemas = {
        "one": pa.schema([("a", pa.int32()), ("b", pa.float64()), ("s", pa.large_string())]),
        "two": pa.schema([("c", pa.string()), ("b", pa.float32()), ("a", pa.int64())]),
        "three": pa.schema([("s", pa.dictionary(pa.int32(), pa.string())), ("a", pa.int8())]),
    }
    expected = [("a", pa.int64()), ("b", pa.float64()), ("s", pa.string()), ("c", pa.string())]
    assert unify_files(schemas) == pa.schema(expected)


def test_types_that_do_not_widen_are_named() -> None:
    """The error names the column, both types and both files."""
    schemas = {"block A": pa.schema([("a", pa.int32())]), "block B": pa.schema([("a", pa.string())])}
    with pytest.raises(InputError, match="column a is int32 in block A and string in block B"):
        unify_files(schemas)


def test_a_batch_gets_the_whole_schema() -> None:
    """Missing columns are null, numbers are widened, dictionaries stay, columns of no interest go."""
    schema = pa.schema([("s", pa.string()), ("new", pa.float64()), ("text", pa.string()), ("a", pa.int64())])
    batch = pa.record_batch(
        {"a": pa.array([1, None], pa.int8()), "s": pa.array(["x", "y"]).dictionary_encode(), "z": [1, 2]}
    )
    found = conform(batch, schema, "it")
    assert found.to_pydict() == {"s": ["x", "y"], "new": [None, None], "text": [None, None], "a": [1, None]}
    assert pa.types.is_dictionary(found.schema.field("s").type)
    assert found.schema.field("a").type == pa.int64()


@pytest.mark.parametrize(
    ("own", "wanted"), [(pa.int64(), pa.int32()), (pa.int32(), pa.float64()), (pa.string(), pa.binary())], ids=str
)
def test_nothing_is_narrowed_or_converted(own: pa.DataType, wanted: pa.DataType) -> None:
    """A column that would have to be narrowed or reinterpreted is refused, with its name, types and file."""
    batch = pa.RecordBatch.from_arrays([pa.nulls(1, own)], names=["a"])
    with pytest.raises(InputError, match=f"column a is {own} in block A, and should be"):
        conform(batch, pa.schema([("a", wanted)]), "block A")
