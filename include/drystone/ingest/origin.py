"""What a block of the first generation says of itself: one source, one time chunk, straight from the ingest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drystone.block.chunks import Chunk
from drystone.block.meta import Group, Replacement, TimeChunk
from drystone.block.schema import Schema
from drystone.config.model import StreamConfig
from drystone.engine.upload import Origin, new_extension
from drystone.rows.writer import Built


@dataclass(frozen=True, slots=True)
class Target:
    """A stream that rows go to, in columns whose schema is kept there under its fingerprint.

    `operation`: the run that writes; `stamp`: what its coordination adds to every block.
    """

    stream: str
    config: StreamConfig
    schema: Schema
    fingerprint: str
    operation: str
    stamp: Mapping[str, Any]

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return [column.name for column in self.schema.columns]

    def origin(
        self,
        built: Built,
        source: str,
        chunk: Chunk,
        *,
        verb: str = "upload",
        group: Group | None = None,
        retires: tuple[Replacement, ...] = (),
        ignore_delay: bool = False,
    ) -> Origin:
        """Return what the block of these rows says of itself, all of them `source`'s rows of one time chunk.

        `group`, `retires`: for rows that take the place of other sources' and may lie in several chunks.
        `ignore_delay`: they are read without sync_delay.
        """
        extension = new_extension(
            stream=self.stream,
            schema_fingerprint=self.fingerprint,
            time_chunk=TimeChunk(start=chunk.start, end=chunk.end, granularity=chunk.granularity),
            time_column=self.config.time_column,
            sort_key=self.config.sort_key,
            group=group,
            generation=self.config.generation,
            retires=retires,
            ignore_delay=ignore_delay,
            checksum=built.checksum,
            operation=self.operation,
            **self.stamp,
        )
        low, high = built.time_range((chunk.start, chunk.end))
        return Origin(
            stream=self.stream,
            verb=verb,
            labels=self.config.labels,
            extension=extension,
            sources=frozenset({source}),
            level=1,
            min_time=low,
            max_time=high,
        )
