"""The create-only objects of an export: what the messages of a plan come to, and that all of it is there.

Source: the design, "Ingest: formats". The first is written before any file, and fixes names: so a run that goes on
where another one stopped writes the same files, whatever was erased between the two.
"""

from __future__ import annotations

from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from drystone.block import keys
from drystone.bucket.protocol import Bucket
from drystone.config.export import Compression, ExportConfig, Format, Split
from drystone.errors import InputError, ObjectMissingError
from drystone.ingest.formats.layout import Folders
from drystone.ingest.formats.registry import extension
from drystone.ingest.kafka.plans import Plan

M = TypeVar("M", bound=BaseModel)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    def to_json(self) -> bytes:
        """Return the bytes of the object."""
        return self.model_dump_json(indent=1).encode()


class Shape(_Model):
    """How files are written: what of the configuration decides which bytes lie where."""

    prefix: str
    format: Format
    compression: Compression
    split: Split
    offsets_per_folder: int

    @classmethod
    def of(cls, config: ExportConfig) -> Shape:
        """Return the shape that a configuration asks for."""
        return cls.model_validate({name: getattr(config, name) for name in cls.model_fields})

    @property
    def folders(self) -> Folders:
        """How messages are told into folders."""
        return Folders(self.split, self.offsets_per_folder)

    @property
    def extension(self) -> str:
        """How files' names end."""
        return extension(self.format, self.compression)


class ExportedFile(_Model):
    """One file: the number of its folder, its key, messages, bytes and digest, and the first and last offset in it."""

    folder: int
    key: str
    rows: int
    bytes: int
    sha256: str
    first_offset: int
    last_offset: int


class ExportPlan(_Model):
    """What the messages of an ingest plan come to.

    `sources`: what they were read from; `edits`: the digest of all edits of the stream that might take some of them.
    """

    version: Literal[1] = 1
    shape: Shape
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    sources: tuple[str, ...]
    edits: str
    files: tuple[ExportedFile, ...]


class ExportDone(_Model):
    """Says that every file of an ingest plan is there: by which run, when (ms), and which they are."""

    version: Literal[1] = 1
    run: str
    time: int
    files: tuple[ExportedFile, ...]


class ExportHead(_Model):
    """Up to which offset everything is exported: where a walk may begin. Nothing depends on it."""

    version: Literal[1] = 1
    start: int


class ExportRecord(_Model):
    """Says that a stream has an export, and where to."""

    version: Literal[1] = 1
    prefix: str


def read(bucket: Bucket, key: str, model: type[M]) -> M | None:
    """Return an object, None if there is none (to be seen); raise InputError if it cannot be read."""
    try:
        return model.model_validate_json(bucket.get(key))
    except ObjectMissingError:
        return None
    except ValidationError as error:
        msg = f"{key} cannot be read: {error.errors()[0]['msg']}."
        raise InputError(msg, "Restore the object: its messages are not exported until it can be read.") from None


def plan_key(plan: Plan, prefix: str) -> str:
    """The key of what an ingest plan comes to under a prefix, without a suffix."""
    where = keys.export(plan.stream, plan.generation, prefix)
    return f"{where}{plan.topic_id}/{plan.partition}/{plan.start:020d}"
