"""How the messages of a partition group are parsed: `ingest.parser`, by its `format`.

Source: the design, "Ingest: parsers". Paths of files are relative to the configuration file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from drystone.config.section import Section

TimeFormat = Literal["iso8601", "s", "ms", "us", "ns"]
_Step = str | int
Path: TypeAlias = tuple[_Step, ...]


def _path(value: object) -> object:
    if isinstance(value, str):
        value = value.split(".")
    plain = isinstance(value, list | tuple) and value and all(type(step) in {str, int} for step in value)
    if not plain or "" in value:  # type: ignore[operator]
        msg = "must be a path, such as a.b.0, or a list of its steps for names with a dot"
        raise ValueError(msg)
    return tuple(value)  # type: ignore[arg-type]


At = Annotated[Path, BeforeValidator(_path, json_schema_input_type=str | list[_Step])]
"""Where in a message a value is: names and list indexes, `a.b.0`; as a list where a name has a dot in it."""


class FieldAt(Section):
    """Where in a message a column's value is, and how a time is written there."""

    path: At
    """Names and list indexes: `a.b.0`."""
    format: TimeFormat = "iso8601"
    """How a timestamp or date is written: ISO-8601, or seconds, ms, us or ns since the epoch."""


def _field(value: object) -> object:
    return value if isinstance(value, dict | FieldAt) else {"path": value}


AnyField = Annotated[FieldAt, BeforeValidator(_field, json_schema_input_type=str | list[_Step] | FieldAt)]


class TimeAt(Section):
    """Where a row's time comes from. One that is missing or absurd is unknown: null."""

    model_config = ConfigDict(populate_by_name=True)

    source: Literal["path", "kafka", "none"] = Field("path", alias="from")
    """`path`: from the message; `kafka`: the message's own timestamp; `none`: from nowhere, so it is unknown."""
    path: At | None = None
    """Where in the message; default: under the name of the time column."""
    format: TimeFormat = "iso8601"
    """How it is written: ISO-8601, or seconds, ms, us or ns since the epoch."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.source != "path" and self.model_fields_set & {"path", "format"}:
            msg = f"from: {self.source} has neither path nor format"
            raise ValueError(msg)
        return self


class SplitBy(Section):
    """One part of the name by which the rows of a time chunk are kept apart: exactly one of these."""

    column: str | None = None
    """The values of a column."""
    kafka_time: Literal["hour", "date"] | None = None
    """The hour or the day of the message's own timestamp."""
    offsets: int | None = Field(None, ge=1)
    """Ranges of so many offsets."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(value is not None for value in (self.column, self.kafka_time, self.offsets)) != 1:
            msg = "must have exactly one of column, kafka_time, offsets"
            raise ValueError(msg)
        return self


class ParserConfig(Section):
    """What every format has."""

    format: str = Field(min_length=1)
    """How messages are written."""
    fields: dict[str, AnyField] = Field(default_factory=dict)
    """Where in a message columns are: a path, or `{path: …, format: ms}`; default: under the column's name."""
    time: TimeAt = TimeAt()
    """Where the time column comes from."""
    split: tuple[SplitBy, ...] = ()
    """By what else than the time chunk rows are kept in different blocks: parts of a name, in this order."""

    def complaint(self, columns: Collection[str], time_column: str) -> str:
        """Return what does not fit a stream of these columns, in one line; "" if all does."""
        if time_column in self.fields:
            return f"fields: {time_column} is the time column: say in `time` where it comes from"
        if unknown := sorted(self.fields.keys() - set(columns)):
            return f"fields: the schema has no column {unknown[0]}; it has {', '.join(columns)}"
        wanted = [each.column for each in self.split if each.column is not None]
        if missing := [name for name in wanted if name not in columns]:
            return f"split: the schema has no column {missing[0]}; it has {', '.join(columns)}"
        return ""


class JsonParser(ParserConfig):
    """JSON: one object in each message, in UTF-8."""

    format: Literal["json"]
    """How messages are written."""


class AvroParser(ParserConfig):
    """Avro: one record in each message.

    `framing: datum` is the bare record, as its schema says; `single_object` has Avro's marker and the schema's
    fingerprint before it; `confluent` has a zero byte and the schema's id, which is looked up in the file `registry`.
    """

    format: Literal["avro"]
    """How messages are written."""
    framing: Literal["datum", "single_object", "confluent"] = "datum"
    """What stands before the record."""
    writer: dict[str, Any] | None = Field(None, alias="schema")
    """The schema that messages were written with …"""
    schema_file: str | None = Field(None, min_length=1)
    """… or a file (`.avsc`) that holds it …"""
    registry: str | None = Field(None, min_length=1)
    """… or a JSON file of several, by their id: `{"1": {…}}`."""

    @model_validator(mode="after")
    def _one_schema(self) -> Self:
        given = [name for name in ("writer", "schema_file", "registry") if getattr(self, name) is not None]
        allowed = {"datum": {"writer", "schema_file"}, "confluent": {"registry"}}.get(self.framing, {*given})
        if len(given) != 1 or not allowed.issuperset(given):
            names = {"datum": "schema or schema_file", "confluent": "registry"}
            msg = f"framing {self.framing} needs {names.get(self.framing, 'one of schema, schema_file, registry')}"
            raise ValueError(msg)
        return self


class ProtobufParser(ParserConfig):
    """Protocol Buffers: one message of a known type in each message of Kafka."""

    format: Literal["protobuf"]
    """How messages are written."""
    descriptor_set: str = Field(min_length=1)
    """A file made by `protoc --include_imports --descriptor_set_out=FILE`."""
    message: str = Field(min_length=1)
    """The message's full name: `package.Message`."""


class MessagePackParser(ParserConfig):
    """MessagePack: one map in each message."""

    format: Literal["msgpack"]
    """How messages are written."""


class DelimitedParser(ParserConfig):
    """Delimited text: one line in each message, in UTF-8, without a header."""

    format: Literal["delimited"]
    """How messages are written."""
    columns: tuple[str, ...] = Field(min_length=1)
    """The names of a line's values, in their order."""
    delimiter: str = Field(",", min_length=1, max_length=1)
    """What stands between values."""
    quote: str | None = Field('"', min_length=1, max_length=1)
    """What values may be put into; twice in a row inside of them it stands for itself. Null: nothing."""
    null_values: tuple[str, ...] = ("",)
    """Texts that stand for a missing value."""

    @model_validator(mode="after")
    def _different(self) -> Self:
        if twice := sorted({name for name in self.columns if self.columns.count(name) > 1}):
            msg = f"columns: {twice[0]} stands twice"
            raise ValueError(msg)
        if self.delimiter == self.quote or {self.delimiter, self.quote} & {"\n", "\r", "\0"}:
            msg = "delimiter and quote must be two different characters, and no line ends"
            raise ValueError(msg)
        return self


class RegexParser(ParserConfig):
    """Text that a regular expression takes apart: each message as a whole, in UTF-8."""

    format: Literal["regex"]
    """How messages are written."""
    pattern: str = Field(min_length=1)
    """A regular expression with named groups, `(?P<name>…)`, that matches the whole message."""
    null_values: tuple[str, ...] = ()
    """Texts that stand for a missing value, as a group does that took part in no match."""

    @model_validator(mode="after")
    def _has_names(self) -> Self:
        try:
            found = re.compile(self.pattern)
        except re.error as error:
            msg = f"pattern is no regular expression: {error}"
            raise ValueError(msg) from None
        if not found.groupindex:
            msg = "pattern has no named groups: write (?P<name>…) around what columns are made of"
            raise ValueError(msg)
        return self


class OwnParser(ParserConfig):
    """A format of an installed package's, which offers it by the entry point group `drystone.parsers`."""

    format: str = Field(min_length=1)
    """The entry point's name."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What the package's decoder is given."""


FORMATS: Mapping[str, type[ParserConfig]] = {
    "json": JsonParser,
    "avro": AvroParser,
    "protobuf": ProtobufParser,
    "msgpack": MessagePackParser,
    "delimited": DelimitedParser,
    "regex": RegexParser,
}
"""The formats that come with Drystone, by name."""


def _by_format(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """Hold a section to the model of its format alone, so that one mistake is one complaint."""
    if isinstance(value, ParserConfig):
        return handler(value)
    if not isinstance(value, dict) or not isinstance(value.get("format"), str):
        return ParserConfig.model_validate(value)
    return FORMATS.get(value["format"], OwnParser).model_validate(value)


AnyParser = Annotated[
    JsonParser | AvroParser | ProtobufParser | MessagePackParser | DelimitedParser | RegexParser | OwnParser,
    WrapValidator(_by_format),
]
"""How messages become rows, by `format`."""
