"""MessagePack messages, decoded by msgspec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import msgspec


@dataclass(frozen=True)
class MessagePackDecoder:
    """Decodes one map; its times (extension -1) come as such."""

    text: ClassVar[bool] = False

    def decode(self, value: bytes) -> object:
        """See `Decoder`. Of two entries of one key the last counts."""
        found = msgspec.msgpack.decode(value)
        if not isinstance(found, dict):
            raise ValueError("the message is no map")  # noqa: TRY004 - the message is wrong, not the program
        return found
