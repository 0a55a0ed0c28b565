"""Protocol Buffers, decoded by its own dynamic messages from a descriptor set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from drystone.config.parser import Path
from drystone.errors import InputError
from drystone.ingest.parsers.paths import is_index, show
from drystone.ingest.parsers.times import Instant

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_US_PER_S = 1_000_000
_NS_PER_US = 1_000


@dataclass(frozen=True)
class ProtobufDecoder:
    """Decodes one message of a type. `descriptor_set`: the bytes of a FileDescriptorSet.

    A field that was not set is missing where the schema can tell (messages, `optional`), else its default. An enum is
    its value's name.
    """

    descriptor_set: bytes
    message: str
    paths: tuple[Path, ...]
    text: ClassVar[bool] = False

    def decode(self, value: bytes) -> object:
        """See `Decoder`."""
        try:
            found = _message_type(self.descriptor_set, self.message).FromString(value)
        except DecodeError:
            raise ValueError(f"the message is no {self.message}") from None
        if not found.IsInitialized():
            raise ValueError(f"the message lacks {', '.join(found.FindInitializationErrors())}")
        return _View(found)


class _View(Mapping[str, object]):
    """A message as a mapping of its fields."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def __getitem__(self, name: str) -> object:
        field = self._message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise KeyError(name)
        if field.has_presence and not self._message.HasField(name):
            return None
        return _value(field, getattr(self._message, name))

    def __iter__(self) -> Any:
        return iter(self._message.DESCRIPTOR.fields_by_name)

    def __len__(self) -> int:
        return len(self._message.DESCRIPTOR.fields_by_name)


def _value(field: FieldDescriptor, value: Any) -> object:
    if _is_map(field):
        kind = field.message_type.fields_by_name["value"]
        return {key: _single(kind, each) for key, each in value.items()}
    if field.is_repeated:
        return [_single(field, each) for each in value]
    return _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> object:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    if field.message_type is None:
        return value
    if field.message_type.full_name == _TIMESTAMP:
        return Instant(value.seconds * _US_PER_S + value.nanos // _NS_PER_US)
    return value.value if field.message_type.full_name in _WRAPPERS else _View(value)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def check(decoder: ProtobufDecoder, where: str) -> None:
    """Raise InputError if the descriptor set cannot be used, lacks the message, or a path leads to no value in it."""
    try:
        kind = _message_type(decoder.descriptor_set, decoder.message).DESCRIPTOR
    except DecodeError:
        raise InputError(f"{where} is no descriptor set.", _MAKE) from None
    except TypeError as error:
        # The library's word for a file that refers to what is not there.
        raise InputError(f"{where} cannot be used: {' '.join(str(error).split())}.", _MAKE) from None
    except KeyError:
        known = ", ".join(_names(decoder.descriptor_set)) or "none"
        raise InputError(f"{where} has no message {decoder.message}.", f"It has {known}.") from None
    for path in decoder.paths:
        if (missing := _missing(kind, path)) is not None:
            raise InputError(f"{where}: {decoder.message} {missing}.", "Say in ingest.parser.fields where columns are.")


_MAKE = "Make it with `protoc --include_imports --descriptor_set_out=FILE`."


def _missing(kind: Descriptor, path: Path) -> str | None:
    """Return why a path leads to no value; None if it leads to one."""
    at: Descriptor | None = kind
    steps = list(path)
    while steps:
        step = steps.pop(0)
        field = at.fields_by_name.get(str(step)) if at is not None else None
        if field is None:
            return f"has no field {show(path)}"
        at = field.message_type
        if _is_map(field):
            if not steps:
                return f"has a map at {show(path)}, which no column holds"
            steps.pop(0)
            at = field.message_type.fields_by_name["value"].message_type
        elif field.is_repeated and not (steps and is_index(steps.pop(0))):
            return f"has a list at {show(path)}: a number must follow"
        if at is not None and (at.full_name == _TIMESTAMP or at.full_name in _WRAPPERS):
            at = None
            if steps:
                return f"has no field {show(path)}"
    return f"has a message at {show(path)}, which no column holds" if at is not None else None


def _names(descriptor_set: bytes) -> list[str]:
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file
    return [f"{file.package}.{each.name}".removeprefix(".") for file in files for each in file.message_type]


@lru_cache(maxsize=16)
def _message_type(descriptor_set: bytes, message: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))
