"""What a task answers for a plan: what it made of it, or why it refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pydantic import BaseModel, TypeAdapter

from drystone.errors import DrystoneError, GivenUpError, InputError, InvariantError
from drystone.ingest.kafka.build import BuiltPlan

_ANSWERED = {error.__name__: error for error in (InputError, InvariantError, GivenUpError)}
"""What another attempt at the task would meet again."""
Build = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Refused(BaseModel):
    """Why nothing was uploaded of a plan: the error that its task met."""

    topic: str
    partition: int
    kind: str
    refused: str
    next_step: str = ""

    @property
    def error(self) -> DrystoneError:
        """The error that the task met."""
        return _ANSWERED[self.kind](self.refused, self.next_step)


Answer = BuiltPlan | Refused
_ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)


@dataclass(frozen=True)
class Answering:
    """A builder for a task that has one plan: what is wrong with its messages is an answer, and no failure.

    A task that fails is tried again by Spark, and ends the job of all plans when it has failed often enough. That is
    right for a store that does not answer, and wrong for messages, which do not get better.
    """

    build: Build

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run in a task; what is yielded has one column of text, `result`: an answer."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        try:
            yield from self.build(chain([first], batches))
        except tuple(_ANSWERED.values()) as error:
            for _ in batches:  # Spark wants to be rid of them.
                pass
            refused = Refused(
                topic=first.column("topic")[0].as_py(),
                partition=first.column("partition")[0].as_py(),
                kind=next(name for name, kind in _ANSWERED.items() if isinstance(error, kind)),
                refused=error.message,
                next_step=error.next_step,
            )
            yield pa.RecordBatch.from_pydict({"result": [refused.model_dump_json()]})


def parse_answer(raw: str) -> Answer:
    """Return the answer in a line of JSON."""
    return _ANSWER.validate_json(raw)
