"""Files of one stream as if they had one schema: columns by name, numbers widened, missing columns null.

Source: the design, "Compaction: schema evolution".
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from drystone.errors import InputError
from drystone.rows import columns

_INTS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATS = (pa.float32(), pa.float64())
_PLAIN = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def unify_files(schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """Return the schema that can hold the rows of all files, given by name: columns in order of their appearance.

    Integers widen to wider integers, floats to wider floats; large strings are strings, dictionaries their values.
    Raises InputError, naming the column, both types and both files, where one column has types that do not widen.
    """
    fields: dict[str, pa.DataType] = {}
    origins: dict[str, str] = {}
    for file, schema in schemas.items():
        for field in schema:
            kind = _plain(field.type)
            known = fields.setdefault(field.name, kind)
            origins.setdefault(field.name, file)
            if known == kind:
                continue
            wider = _wider(known, kind)
            if wider is None:
                origin = origins[field.name]
                msg = f"column {field.name} is {known} in {origin} and {kind} in {file}."
                raise InputError(msg, "They cannot be rewritten as one: change the column's name, or repair one block.")
            fields[field.name] = wider
    return pa.schema(list(fields.items()))


def conform(batch: pa.RecordBatch, schema: pa.Schema, file: str) -> pa.RecordBatch:
    """Return the batch with just the schema's columns, in its order: widened, and null where the batch has none.

    Dictionary arrays stay what they are. Raises InputError, naming column, types and file, for a type that does not
    widen into the schema's.
    """
    arrays = []
    for field in schema:
        position = batch.schema.get_field_index(field.name)
        if position < 0:
            arrays.append(pa.nulls(batch.num_rows, _missing_type(field.type)))
        else:
            arrays.append(_fit(batch.column(position), field, file))
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def fits(own: pa.Schema, wanted: pa.Schema) -> bool:
    """Tell whether `conform` has nothing to do for batches of this schema."""
    return own.names == wanted.names and all(
        each.type == field.type or columns.plain_type(each.type) == field.type
        for each, field in zip(own, wanted, strict=True)
    )


def _missing_type(kind: pa.DataType) -> pa.DataType:
    # As dictionaries, nulls do not keep a merge from sharing the dictionaries that other files have.
    return pa.dictionary(pa.int32(), kind) if columns.is_text(kind) else kind


def _fit(array: pa.Array, field: pa.Field, file: str) -> pa.Array:
    if array.type == field.type:
        return array
    own = columns.plain_type(array.type)
    if pa.types.is_dictionary(array.type):
        if own == field.type and array.dictionary.null_count == 0:
            return array
        array = array.cast(own)
    if own == field.type or own == pa.null():
        return array.cast(field.type)
    if _wider(_plain(own), field.type) != field.type:
        msg = f"column {field.name} is {own} in {file}, and should be {field.type}."
        raise InputError(msg, "It cannot be rewritten with the others: change the column's name, or repair the block.")
    return pc.cast(array, field.type)


def _plain(kind: pa.DataType) -> pa.DataType:
    plain = columns.plain_type(kind)
    return _PLAIN.get(plain, plain)


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if one == other or other == pa.null():
        return one
    if one == pa.null():
        return other
    for family in (_INTS, _FLOATS):
        if one in family and other in family:
            return max(one, other, key=family.index)
    return None
