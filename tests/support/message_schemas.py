"""A flight's schema in Avro and in Protocol Buffers: unions, lists, maps, times, and a type within itself."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "demo.Flight",
    "fields": [
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "name", "type": ["null", "string"]},
        {"name": "count", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["JET", "PROP"]}},
        {"name": "legs", "type": {"type": "array", "items": {"type": "record", "name": "Leg", "fields": [
            {"name": "to", "type": "string"}, {"name": "next", "type": ["null", "Leg"]}]}}},
        {"name": "tags", "type": {"type": "map", "values": "double"}},
    ],
}  # fmt: skip


def descriptor_set() -> bytes:
    """Return what protoc makes of a file with everything that a field can be."""
    file = descriptor_pb2.FileDescriptorProto(name="flight.proto", package="demo", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    file.enum_type.add(name="Kind").value.add(name="JET", number=0)
    file.enum_type[0].value.add(name="PROP", number=1)
    leg = file.message_type.add(name="Leg")
    leg.field.add(name="to", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    leg.field.add(name="next", number=2, type="TYPE_MESSAGE", type_name=".demo.Leg", label="LABEL_OPTIONAL")
    flight = file.message_type.add(name="Flight")
    entry = flight.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    entry.field.add(name="value", number=2, type="TYPE_DOUBLE", label="LABEL_OPTIONAL")
    add = flight.field.add
    add(name="at", number=1, type="TYPE_MESSAGE", type_name=".google.protobuf.Timestamp", label="LABEL_OPTIONAL")
    add(name="name", number=2, type="TYPE_STRING", label="LABEL_OPTIONAL", proto3_optional=True, oneof_index=0)
    flight.oneof_decl.add(name="_name")
    add(name="count", number=3, type="TYPE_INT64", label="LABEL_OPTIONAL")
    add(name="price", number=4, type="TYPE_MESSAGE", type_name=".google.protobuf.StringValue", label="LABEL_OPTIONAL")
    add(name="kind", number=5, type="TYPE_ENUM", type_name=".demo.Kind", label="LABEL_OPTIONAL")
    add(name="legs", number=6, type="TYPE_MESSAGE", type_name=".demo.Leg", label="LABEL_REPEATED")
    add(name="tags", number=7, type="TYPE_MESSAGE", type_name=".demo.Flight.TagsEntry", label="LABEL_REPEATED")
    found = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, wrappers_pb2):
        module.DESCRIPTOR.CopyToProto(found.file.add())
    found.file.append(file)
    return found.SerializeToString()
