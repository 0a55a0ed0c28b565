"""Messages that are text: delimited, or taken apart by a regular expression."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

# A value may be as long as a message; the module's own limit is 128 KiB.
csv.field_size_limit((1 << 31) - 1)


@dataclass(frozen=True)
class DelimitedDecoder:
    """Decodes one line of values whose names are known; one line end after it is allowed."""

    columns: tuple[str, ...]
    delimiter: str
    quote: str | None
    null_values: frozenset[str]
    text: ClassVar[bool] = True

    def decode(self, value: bytes) -> object:
        """See `Decoder`."""
        line = value.decode().removesuffix("\n").removesuffix("\r")
        values = self._values(line)
        if len(values) != len(self.columns):
            raise ValueError(f"the line has {len(values)} values, and {len(self.columns)} were expected")
        return {
            name: None if text in self.null_values else text for name, text in zip(self.columns, values, strict=True)
        }

    def _values(self, line: str) -> list[str]:
        if self.quote is None or self.quote not in line:
            if "\n" in line or "\r" in line:
                raise ValueError("the message has several lines")
            return line.split(self.delimiter)
        read = list(csv.reader([line], delimiter=self.delimiter, quotechar=self.quote, strict=True))
        if len(read) != 1:
            raise ValueError("the message has several lines")
        return read[0]


@dataclass(frozen=True)
class RegexDecoder:
    """Decodes what matches a pattern as a whole, by its named groups."""

    pattern: str
    null_values: frozenset[str]
    text: ClassVar[bool] = True

    def decode(self, value: bytes) -> object:
        """See `Decoder`."""
        found = _compiled(self.pattern).fullmatch(value.decode())
        if found is None:
            raise ValueError("the message does not match the pattern")
        return {name: None if text in self.null_values else text for name, text in found.groupdict().items()}


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
