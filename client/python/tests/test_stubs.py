"""The generated stubs match the service's own definitions."""

import importlib
from pathlib import Path

from google.protobuf import descriptor_pb2

DEFINITIONS = Path(__file__).parents[3] / "proto/verbatim-proto/src/descriptors.bin"


def test_the_stubs_are_those_of_the_definitions_that_the_daemon_serves() -> None:
    files = descriptor_pb2.FileDescriptorSet.FromString(DEFINITIONS.read_bytes()).file
    ours = [file for file in files if file.name.startswith("verbatim/")]
    assert len(ours) >= 4, [file.name for file in files]
    for file in ours:
        module = file.name.removesuffix(".proto").replace("/", ".")
        stub = importlib.import_module(f"verbatim_client._proto.{module}_pb2")
        made_of = descriptor_pb2.FileDescriptorProto()
        stub.DESCRIPTOR.CopyToProto(made_of)
        assert plain(made_of) == plain(file), f"generate the stubs of {file.name} anew (docs/python.md)"


def plain(file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    """Removes the fields that only some compilers write: comments and JSON names."""
    file.ClearField("source_code_info")
    left = list(file.message_type)
    while left:
        message = left.pop()
        left += message.nested_type
        for field in list(message.field) + list(message.extension):
            field.ClearField("json_name")
    return file
