"""Copies of a backup stream in Secor's own files, for those who read them. Source: the design, "Ingest: formats"."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from drystone.config.durations import Duration
from drystone.config.section import Section

Format = Literal["text", "sequence_file", "sequence_file_msgpack"]
Compression = Literal["none", "gz", "zst"]
Split = Literal["day", "hour", "offset", "none"]

_PREFIX = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._=-]*(/[A-Za-z0-9_-][A-Za-z0-9._=-]*)*")
_SUCCESS = re.compile(r"_[A-Za-z0-9_.-]+")


def _check_prefix(prefix: str) -> str:
    if _PREFIX.fullmatch(prefix) is None:
        msg = "must be a path such as logs/raw: letters, digits, and any of - _ . = between slashes"
        raise ValueError(msg)
    return prefix


def _check_success(name: str) -> str:
    if _SUCCESS.fullmatch(name) is None:
        msg = "must begin with an underscore, or readers of a folder take it for data"
        raise ValueError(msg)
    return name


class ExportConfig(Section):
    """Copies of a backup stream's messages in Secor's layout and formats, in the stream's bucket.

    A message is in one file, `<prefix>/<topic>/<folder>/<generation>_<Kafka partition>_<offset><extension>`.
    """

    prefix: Annotated[str, AfterValidator(_check_prefix)]
    """Where the files lie in the stream's bucket; no stream may have the name of its first folder."""
    format: Format = "sequence_file_msgpack"
    """Lines of text, or Hadoop SequenceFiles, whose keys are 8-byte offsets, or MessagePack maps with more in them."""
    compression: Compression = "none"
    """Of text alone."""
    split: Split = "day"
    """How messages are told into folders: by the day or hour of their Kafka timestamp, by offset, or not at all."""
    offsets_per_folder: int = Field(1_000_000, ge=1)
    """How many offsets a folder of `split: offset` holds."""
    success: Annotated[str, AfterValidator(_check_success)] | None = "_SUCCESS"
    """What is written to the folder of a day or hour that is finished; null: nothing."""
    grace: Duration = 3_600_000
    """A day or hour is finished when every message that is not exported yet is younger than its end by this."""
    schedule: str | None = "asset"
    """When files are written: a cron expression, `asset` (after every ingest) or null (by hand)."""

    @model_validator(mode="after")
    def _compresses_text(self) -> Self:
        if self.compression != "none" and self.format != "text":
            msg = f"compression is for format text; {self.format} has none"
            raise ValueError(msg)
        return self
