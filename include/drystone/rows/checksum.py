"""The content checksum: one 64-bit number for a bag of rows, whatever their order, batches and encodings.

It is a format (meta.json records it), and this is its definition; all arithmetic is modulo 2**64.

* checksum = sum over the rows of fmix(t), with splitmix64's finaliser fmix (see `hashing`);
* t of a row = sum over its columns that are not null of (K * v + C);
* K, C of a column: the two little-endian words of blake2b(name, digest_size=16, person=b"drystone-rows-1"), K with
  its lowest bit set;
* v of a value: of integers, bools and dates (days) the 64-bit two's complement; of timestamps the microseconds since
  the epoch (plus M1 times the nanoseconds left over); of floats the bits x of the float64, -0.0 read as 0.0 and every
  NaN as 0x7FF8000000000000, as x xor (x >> 32); of strings and bytes `hashing.hash_text`; of decimals the hash of the
  16 bytes of the unscaled value, plus M1 times the scale.

So a null, an absent column and one that is null throughout are the same, and widening int32 to int64 or float32 to
float64 changes nothing; a changed value, two values swapped between rows, a lost or a doubled row change the sum. It
detects accidents, not attacks. `__source` is no content: it is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drystone.errors import InputError
from drystone.rows import columns
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.rows.columns import U64
from drystone.rows.hashing import fmix, hash_text, hash_words

_SKIP = frozenset({SOURCE_COLUMN})
_MASK = (1 << 64) - 1
_HEX = 16
_ROWS = 16_384
"""Rows at a time: the running sums stay in the processor's cache."""
_NAN = np.uint64(0x7FF8000000000000)
_M1 = np.uint64(0xFF51AFD7ED558CCD)
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_Term = Callable[[slice, U64, U64], None]
"""Adds a column's part of the rows in the slice to the first array; the second is scratch."""


class ContentChecksum:
    """A checksum in the making: `update` adds rows, + and - combine two (rows that a rewrite drops are subtracted)."""

    __slots__ = ("_tables", "rows", "value")

    def __init__(self, value: int = 0, rows: int = 0) -> None:
        """A checksum of no rows, or one that was computed before."""
        self.value = value & _MASK
        self.rows = rows
        self._tables: dict[str, tuple[pa.Array, U64]] = {}

    @classmethod
    def from_hex(cls, text: str, rows: int = 0) -> Self:
        """Return the checksum whose `hex` is `text`; raise InputError for anything else than 16 hexadecimal digits."""
        if len(text) != _HEX or not all(char in "0123456789abcdef" for char in text):
            raise InputError(f"{text!r} is no content checksum.", "It has 16 hexadecimal digits.")
        return cls(int(text, 16), rows)

    @property
    def hex(self) -> str:
        """The checksum as meta.json holds it: 16 hexadecimal digits."""
        return f"{self.value:016x}"

    def update(self, data: pa.RecordBatch | pa.Table, *, skip: AbstractSet[str] = _SKIP) -> Self:
        """Add the rows of `data`, without the columns in `skip`; return self.

        Chunks, slices and dictionaries make no difference. Raises InputError for a column of a type that is not listed
        in the definition (nested types, times of day, durations, float16, decimals of more than 128 bits).
        """
        batches = data.to_batches() if isinstance(data, pa.Table) else [data]
        for batch in batches:
            if batch.num_rows:
                self._add(batch, skip)
        return self

    def __add__(self, other: ContentChecksum) -> ContentChecksum:
        """Return the checksum of both bags of rows together."""
        return ContentChecksum(self.value + other.value, self.rows + other.rows)

    def __sub__(self, other: ContentChecksum) -> ContentChecksum:
        """Return the checksum of these rows without those of `other`."""
        return ContentChecksum(self.value - other.value, self.rows - other.rows)

    def __eq__(self, other: object) -> bool:
        """Tell whether both stand for the same bag of rows."""
        if not isinstance(other, ContentChecksum):
            return NotImplemented
        return (self.value, self.rows) == (other.value, other.rows)

    __hash__ = None  # type: ignore[assignment] # it changes

    def __repr__(self) -> str:
        """Return the value and the number of rows."""
        return f"ContentChecksum({self.hex}, {self.rows} rows)"

    def _add(self, batch: pa.RecordBatch, skip: AbstractSet[str]) -> None:
        constant, terms = 0, []
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if name in skip or array.null_count == len(array):
                continue
            factor, own = _constants(name)
            always, term = self._term(name, array, factor, own)
            constant = (constant + always) & _MASK
            terms.append(term)
        rows = batch.num_rows
        sums, scratch = np.empty(min(_ROWS, rows), np.uint64), np.empty(min(_ROWS, rows), np.uint64)
        total = 0
        for low in range(0, rows, _ROWS):
            part = slice(low, min(low + _ROWS, rows))
            count = part.stop - low
            sums[:count] = constant
            for term in terms:
                term(part, sums[:count], scratch[:count])
            total += int(fmix(sums[:count]).sum(dtype=np.uint64))
        self.value = (self.value + total) & _MASK
        self.rows += rows

    def _term(self, name: str, array: pa.Array, factor: np.uint64, own: np.uint64) -> tuple[int, _Term]:
        """Return what the column adds to every row, and how it adds the rest."""
        if pa.types.is_dictionary(array.type):
            if len(array.dictionary) > len(array) or array.dictionary.null_count:
                array = array.cast(array.type.value_type)
            else:
                return 0, _looked_up(array, self._table(name, array.dictionary, factor, own))
        missing = columns.nulls(array)
        found = _values(name, array)
        if missing is None:
            return int(own), _linear(found, factor)
        return 0, _linear_nullable(found, missing, factor, own)

    def _table(self, name: str, dictionary: pa.Array, factor: np.uint64, own: np.uint64) -> U64:
        """Return the terms of a dictionary's values; batch after batch usually has the same dictionary."""
        known = self._tables.get(name)
        if known is None or not known[0].equals(dictionary):
            known = (dictionary, _values(name, dictionary).astype(np.uint64) * factor + own)
            self._tables[name] = known
        return known[1]


def _constants(name: str) -> tuple[np.uint64, np.uint64]:
    digest = hashlib.blake2b(name.encode(), digest_size=16, person=b"drystone-rows-1").digest()
    return np.uint64(int.from_bytes(digest[:8], "little") | 1), np.uint64(int.from_bytes(digest[8:], "little"))


def _linear(found: np.ndarray, factor: np.uint64) -> _Term:
    def add(part: slice, sums: U64, scratch: U64) -> None:
        np.copyto(scratch, found[part], casting="unsafe")
        np.multiply(scratch, factor, out=scratch)
        np.add(sums, scratch, out=sums)

    return add


def _linear_nullable(found: np.ndarray, missing: columns.Bools, factor: np.uint64, own: np.uint64) -> _Term:
    def add(part: slice, sums: U64, scratch: U64) -> None:
        np.copyto(scratch, found[part], casting="unsafe")
        np.multiply(scratch, factor, out=scratch)
        np.add(scratch, own, out=scratch)
        np.copyto(scratch, 0, where=missing[part])
        np.add(sums, scratch, out=sums)

    return add


def _looked_up(array: pa.DictionaryArray, table: U64) -> _Term:
    found, missing = columns.codes(array), columns.nulls(array)

    def add(part: slice, sums: U64, scratch: U64) -> None:
        # A null's code is undefined, so it is clipped rather than trusted.
        np.take(table, found[part], out=scratch, mode="clip")
        if missing is not None:
            np.copyto(scratch, 0, where=missing[part])
        np.add(sums, scratch, out=sums)

    return add


def _values(name: str, array: pa.Array) -> np.ndarray:
    """Return v of each value, as an integer array whose 64-bit two's complement counts."""
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_date32(kind):
        return columns.values(array)
    if pa.types.is_boolean(kind):
        return columns.bools(array)
    if pa.types.is_timestamp(kind):
        return _microseconds(columns.values(array), kind.unit)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return _float_bits(columns.values(array))
    if columns.is_text(kind):
        return hash_text(array)
    if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind):
        return hash_text(array.cast(pa.binary()))
    if pa.types.is_decimal(kind) and kind.bit_width <= 128:  # noqa: PLR2004 - the widest that Parquet and Spark have
        return _unscaled(array)
    msg = f"column {name} has type {kind}, which has no content checksum."
    raise InputError(msg, "Blocks hold bool, integers, floats, strings, binary, dates, timestamps and decimals.")


def _microseconds(ticks: np.ndarray, unit: str) -> np.ndarray:
    if unit == "us":
        return ticks
    if unit == "ns":
        whole, rest = np.divmod(ticks, 1000)
        return whole.astype(np.uint64) + rest.astype(np.uint64) * _M1
    return ticks * (_PER_SECOND["us"] // _PER_SECOND[unit])


def _float_bits(found: np.ndarray) -> U64:
    wide = found.astype(np.float64)
    # Adding 0.0 turns -0.0 into 0.0.
    wide += 0.0
    bits = wide.view(np.uint64)
    np.copyto(bits, _NAN, where=np.isnan(wide))
    # The product keeps a value's top bit in the top bit: two floats of a row that both changed sign would cancel out.
    bits ^= bits >> np.uint64(32)
    return bits


def _unscaled(array: pa.Array) -> U64:
    wide = pc.cast(array, pa.decimal128(38, array.type.scale))
    words = np.frombuffer(wide.buffers()[1], "<u8", 2 * len(wide), 16 * wide.offset)
    return hash_words(words.reshape(-1, 2)) + np.uint64((array.type.scale * int(_M1)) & _MASK)
