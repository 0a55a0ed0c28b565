"""64-bit hashes of byte strings, vectorised: one part of the content checksum, and as such a format.

h(s) of a string of n bytes is fmix(sum over i of mix(w_i xor a_i) + (n + 1) * GAMMA), all modulo 2**64, where

* w_0, w_1 … are the string's bytes in little-endian words of eight, the last one filled up with zeros;
* a_i = fmix((i + 1) * GAMMA), so that a word counts differently at each place;
* mix(x) multiplies by M1, xors with itself shifted right by 29, and multiplies by M2;
* fmix is splitmix64's finaliser: x += GAMMA, then twice (xor with itself shifted right, multiply), then xor-shift.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drystone.rows.columns import I64, U64

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xFF51AFD7ED558CCD)
_M2 = np.uint64(0xC4CEB9FE1A85EC53)
_F1 = np.uint64(0xBF58476D1CE4E5B9)
_F2 = np.uint64(0x94D049BB133111EB)
_ONES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_WORD = 8
_ROWS = 16_384
"""Rows at a time: what they need stays in the processor's cache."""
_FEW = 8
"""Where fewer strings than that go on, the rest of each is hashed by itself, vectorised over its words."""


def fmix(x: U64) -> U64:
    """Return splitmix64's finaliser of each value, computed in place: `x` must be the caller's own."""
    scratch = np.empty_like(x)
    np.add(x, GAMMA, out=x)
    for shift, factor in ((30, _F1), (27, _F2)):
        np.right_shift(x, np.uint64(shift), out=scratch)
        np.bitwise_xor(x, scratch, out=x)
        np.multiply(x, factor, out=x)
    np.right_shift(x, np.uint64(31), out=scratch)
    np.bitwise_xor(x, scratch, out=x)
    return x


def hash_text(array: pa.Array) -> U64:
    """Return h of each string or byte string; what stands in a null's place is undefined."""
    starts, lengths, raw = _layout(array)
    out = np.empty(len(array), np.uint64)
    for low in range(0, len(array), _ROWS):
        part = slice(low, low + _ROWS)
        out[part] = _hash_block(starts[part], lengths[part], raw)
    return out


def hash_words(words: U64) -> U64:
    """Return h of fixed-width strings: one row of 8-byte words each."""
    total = np.zeros(len(words), np.uint64)
    for place in range(words.shape[1]):
        total += _mix(words[:, place] ^ _place(place))
    return _finish(total, np.full(len(words), words.shape[1] * _WORD, np.int64))


def _layout(array: pa.Array) -> tuple[I64, I64, NDArray[np.uint8]]:
    """Return where each string starts, how long it is, and the bytes, with room for two words behind the last."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    dtype = np.dtype(np.int64 if wide else np.int32)
    _, offsets_buffer, data = array.buffers()
    if len(array) == 0 or offsets_buffer is None:
        none = np.zeros(len(array), np.int64)
        return none, none, np.zeros(2 * _WORD, np.uint8)
    offsets = np.frombuffer(offsets_buffer, dtype, len(array) + 1, array.offset * dtype.itemsize).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    raw = np.zeros((last - first) // _WORD * _WORD + 3 * _WORD, np.uint8)
    if last > first:
        raw[: last - first] = np.frombuffer(data, np.uint8, last - first, first)
    return offsets[:-1] - first, np.diff(offsets), raw


def _hash_block(starts: I64, lengths: I64, raw: NDArray[np.uint8]) -> U64:
    total = np.zeros(len(starts), np.uint64)
    # The longest first: those that have a word at some place stand before those that have none there.
    order = np.argsort(-lengths, kind="stable")
    order = order[: np.count_nonzero(lengths)]
    total[order] = _sums(starts[order], lengths[order], raw.view("<u8"))
    return _finish(total, lengths)


def _sums(starts: I64, lengths: I64, words: U64) -> U64:
    """Return the sums of strings of at least a byte, the longest first: place by place, and the longest one by one."""
    first, shift = starts >> 3, ((starts & 7) << 3).astype(np.uint64)
    last = (lengths - 1) >> 3
    ends = _shifted(words[first + last], words[first + last + 1], shift)
    sums = _mix(_cut(ends, lengths - last * _WORD) ^ _at(last))
    lower, place, ascending = words[first], 0, -last
    while (rows := int(np.searchsorted(ascending, -place))) >= _FEW:
        upper = words[first[:rows] + (place + 1)]
        sums[:rows] += _mix(_shifted(lower[:rows], upper, shift[:rows]) ^ _place(place))
        lower, place = upper, place + 1
    for row in range(rows):
        rest = words[first[row] + place : first[row] + last[row] + 1]
        mixed = _mix(_shifted(rest[:-1], rest[1:], shift[row]) ^ _at(np.arange(place, last[row])))
        sums[row : row + 1] += mixed.sum(dtype=np.uint64)
    return sums


def _shifted(lower: U64, upper: U64, shift: U64) -> U64:
    """Return the eight bytes that begin `shift` bits into the first of two words."""
    # In two steps: a shift by 64 is undefined, and is needed where a string is aligned.
    found = upper << (np.uint64(63) - shift)
    np.left_shift(found, np.uint64(1), out=found)
    np.bitwise_or(found, lower >> shift, out=found)
    return found


def _cut(word: U64, rest: I64) -> U64:
    """Return the words with all but their first `rest` bytes, one to eight, set to zero."""
    return word & (_ONES >> ((_WORD - rest) << 3).astype(np.uint64))


@lru_cache(4096)
def _place(place: int) -> np.uint64:
    return np.uint64(_at(np.array([place]))[0])


def _at(places: I64) -> U64:
    return fmix((places.astype(np.uint64) + np.uint64(1)) * GAMMA)


def _mix(x: U64) -> U64:
    """Mix each value, in place: `x` must be the caller's own."""
    np.multiply(x, _M1, out=x)
    np.bitwise_xor(x, x >> np.uint64(29), out=x)
    np.multiply(x, _M2, out=x)
    return x


def _finish(total: U64, lengths: I64) -> U64:
    return fmix(total + (lengths.astype(np.uint64) + np.uint64(1)) * GAMMA)
