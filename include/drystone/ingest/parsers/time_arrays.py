"""Times of many messages at once, as far as there is only one way to read them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drystone.config.parser import FieldAt
from drystone.ingest.parsers.times import FIRST_US, LAST_US, PER_UNIT

# As ISO-8601 is written by nearly everybody, and read alike by everyone; other spellings are read one by one.
_DATE = r"[1-9]\d{3}-\d\d-\d\d"
_ISO = rf"^{_DATE}([T ]\d\d:\d\d(:\d\d(\.\d{{1,6}})?)?(Z|[+-][01]\d:[0-5]\d)?)?$"
_ZONE = r"(Z|[+-]\d\d:\d\d)$"


def not_dates(found: pa.Array) -> np.ndarray:
    """Tell which texts are no plain dates, `2013-01-31`; a null is no text."""
    return _not_matching(found, f"^{_DATE}$")


def time_array(found: pa.Array, field: FieldAt) -> tuple[pa.Array, np.ndarray]:
    """Return times since the epoch as int64, null where there is none or it is doubtful, and which are doubtful."""
    if field.format == "iso8601":
        return _from_text(found)
    empty = found.is_null().to_numpy(zero_copy_only=False)
    ticks = found.fill_null(0).to_numpy(zero_copy_only=False)
    if field.format == "ns":
        return pa.array(ticks // 1_000, mask=empty), np.zeros(len(found), bool)
    factor = PER_UNIT[field.format]
    far = (ticks < FIRST_US // factor) | (ticks > LAST_US // factor)
    return pa.array(np.where(far, 0, ticks) * factor, mask=empty | far), far


def _from_text(found: pa.Array) -> tuple[pa.Array, np.ndarray]:
    odd = _not_matching(found, _ISO)
    plain = pc.if_else(pa.array(odd), pa.scalar(None, pa.string()), found) if odd.any() else found
    zoned = pc.match_substring_regex(plain, _ZONE)
    # A naive time is one of UTC. Arrow reads all of an array with a zone, or all without.
    naive = pc.if_else(zoned, pa.scalar(None, pa.string()), plain).cast(pa.timestamp("us")).cast(pa.int64())
    if not pc.any(zoned).as_py():
        return naive, odd
    aware = pc.if_else(zoned, plain, pa.scalar(None, pa.string())).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return pc.coalesce(aware, naive), odd


def _not_matching(found: pa.Array, pattern: str) -> np.ndarray:
    """Tell which texts do not match; a null is no text."""
    matching = pc.match_substring_regex(found, pattern).fill_null(True)  # noqa: FBT003 - what null becomes
    found_matching: np.ndarray = matching.to_numpy(zero_copy_only=False)
    return ~found_matching
