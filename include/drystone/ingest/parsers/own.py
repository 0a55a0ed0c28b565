"""What a package derives from to add a format of messages: an entry point in the group `drystone.parsers`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

GROUP = "drystone.parsers"


class MessageDecoder(ABC):
    """Takes one message apart. One object is made for each stream; it is pickled, and travels to Spark's workers.

    Which value goes into which column, types, times and splits are the configuration's, as with every other format.
    """

    version: ClassVar[str]
    """Changed whenever the same message would give something else: plans begun with another one are done again."""
    text: ClassVar[bool] = False
    """Whether values are text only, so that numbers and truth values are to be read from it."""

    def __init__(self, options: Mapping[str, Any], folder: Path) -> None:
        """`options`: those of the configuration; `folder`: what relative paths in them are relative to.

        Raise ValueError, with what is wrong, for options that cannot be used.
        """
        self.options = dict(options)
        self.folder = folder

    @abstractmethod
    def decode(self, value: bytes) -> Mapping[str, Any]:
        """Return a message as names and values: text, numbers, truth values, bytes, times, mappings, lists or None.

        Whatever it raises is the reason why this message gives no row; it stops no other message.
        """

    def files(self) -> Mapping[str, bytes]:
        """Return the contents of the files that it reads, by name: another content is another parser."""
        return {}
