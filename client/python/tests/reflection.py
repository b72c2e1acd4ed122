"""Reads a daemon's descriptors through gRPC's reflection service."""

from __future__ import annotations

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_SERVICE = "grpc.reflection.v1.ServerReflection"


def _messages() -> tuple[type, type]:
    """Makes the two messages of reflection.proto for a request of files, because Debian has no stubs of that file."""
    file = descriptor_pb2.FileDescriptorProto(name="verbatim_tests/reflection.proto", package="verbatim_tests")
    string, message, data = 9, 11, 12
    for name, fields in {
        "Request": [("file_by_filename", 3, string, 1, "")],
        "Files": [("file_descriptor_proto", 1, data, 3, "")],
        "Response": [("files", 4, message, 1, ".verbatim_tests.Files")],
    }.items():
        made = file.message_type.add(name=name)
        for field, number, kind, label, type_name in fields:
            made.field.add(name=field, number=number, type=kind, label=label, type_name=type_name or None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return tuple(
        factory.GetPrototype(pool.FindMessageTypeByName(f"verbatim_tests.{name}")) for name in ("Request", "Response")
    )


def files(daemon: str, name: str) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    """Returns the descriptors that the daemon sends for a protocol file, such as "verbatim/v1/run.proto"."""
    request, response = _messages()
    with grpc.insecure_channel(daemon, options=[("grpc.default_authority", "localhost")]) as channel:
        ask = channel.stream_stream(
            f"/{_SERVICE}/ServerReflectionInfo", request.SerializeToString, response.FromString
        )
        answer = next(ask(iter([request(file_by_filename=name)]), timeout=30))
    found = [descriptor_pb2.FileDescriptorProto.FromString(data) for data in answer.files.file_descriptor_proto]
    return {file.name: file for file in found}
