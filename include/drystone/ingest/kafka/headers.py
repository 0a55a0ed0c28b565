"""A message's headers as one text, as backup and dead-letter rows keep them, and back.

The text is JSON: a list of [name, value] in their order, a value in base64, or null; no text where there are none. It
is what every JSON parser reads, and it gives back every byte.
"""

from __future__ import annotations

import base64
import json
from binascii import b2a_base64

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drystone.ingest.kafka.messages import HEADERS


def to_text(headers: pa.ListArray) -> pa.StringArray:
    """Return each message's headers as JSON, null where it has none."""
    lengths = pc.fill_null(headers.value_lengths(), 0)
    if not pc.any(pc.greater(lengths, 0)).as_py():
        return pa.nulls(len(headers), pa.string())
    pairs = headers.flatten()
    names, values = (pc.struct_field(pairs, name) for name in ("key", "value"))
    items = pc.binary_join_element_wise("[", _json(names), ",", _base64(values), "]", "")
    offsets = np.concatenate(([0], np.cumsum(lengths.to_numpy(zero_copy_only=False)))).astype(np.int32)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), items), ",")
    text = pc.binary_join_element_wise("[", joined, "]", "")
    return pc.if_else(pc.greater(lengths, 0), text, pa.scalar(None, pa.string()))


def from_text(texts: pa.StringArray) -> pa.ListArray:
    """Return the headers that these texts tell of. Raises ValueError for what `to_text` has not written."""
    found = [None if text is None else [_pair(*each) for each in json.loads(text)] for text in texts.to_pylist()]
    return pa.array([each or [] for each in found], HEADERS)


def _pair(name: str, value: str | None) -> tuple[str, bytes | None]:
    return name, None if value is None else base64.b64decode(value, validate=True)


def _json(names: pa.StringArray) -> pa.StringArray:
    """Return each name as JSON: few differ."""
    coded = names.dictionary_encode()
    texts = [json.dumps(name, ensure_ascii=False) for name in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(texts, pa.string())).dictionary_decode()


def _base64(values: pa.BinaryArray) -> pa.StringArray:
    """Return each value as JSON: base64 has no letter that JSON escapes."""
    coded = values.dictionary_encode()
    texts = [b'"' + b2a_base64(value, newline=False) + b'"' for value in coded.dictionary.to_pylist()]
    decoded = pa.DictionaryArray.from_arrays(coded.indices, pa.array(texts, pa.binary())).dictionary_decode()
    return pc.fill_null(decoded.cast(pa.string()), "null")
