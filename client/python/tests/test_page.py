"""The examples of docs/python.md run as written, and the stubs match the protocol."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from verbatim_client._proto.verbatim.agent.v1 import agent_pb2, verbs_pb2
from verbatim_client._proto.verbatim.record.v1 import record_pb2
from verbatim_client._proto.verbatim.v1 import catalog_pb2, event_pb2, lease_pb2, rig_pb2, run_pb2, verdict_pb2

from .conftest import ROOT
from .reflection import files

PAGE = (ROOT / "docs" / "python.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n(?:\nprints\n\n```\n(.*?)^```)?", PAGE, re.S | re.M)
STUBS = (
    agent_pb2,
    verbs_pb2,
    record_pb2,
    catalog_pb2,
    event_pb2,
    lease_pb2,
    rig_pb2,
    run_pb2,
    verdict_pb2,
)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 3 and EXAMPLES[0][1]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs_as_written(daemon: str, number: int, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VERBATIM_SERVER", daemon)
    monkeypatch.chdir(tmp_path)
    code, shown = EXAMPLES[number]
    exec(compile(code, "docs/python.md", "exec"), {"__name__": "__main__"})
    if shown:
        assert capsys.readouterr().out == shown


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.DESCRIPTOR.name)
def test_each_field_of_the_protocol_is_in_the_stubs_under_its_number(stub) -> None:
    """Parses the .proto files as text, so that the test works without protoc."""
    text = re.sub(r"//.*", "", (ROOT / "proto" / stub.DESCRIPTOR.name).read_text())
    messages = re.findall(r"^message (\w+) \{(.*?)\}$", text, re.S | re.M)
    for message, body in messages:
        fields = dict(re.findall(r"(\w+) = (\d+);", re.sub(r"enum \w+ \{.*?\}", "", body, flags=re.S)))
        known = {field.name: str(field.number) for field in stub.DESCRIPTOR.message_types_by_name[message].fields}
        assert fields == known, f"{message}: generate the stubs anew (docs/python.md)"
    assert {name for name, _ in messages} == set(stub.DESCRIPTOR.message_types_by_name)
    for enum, body in re.findall(r"^enum (\w+) \{(.*?)\}$", text, re.S | re.M):
        values = dict(re.findall(r"(\w+) = (\d+);", body))
        known = {value.name: str(value.number) for value in stub.DESCRIPTOR.enum_types_by_name[enum].values}
        assert values == known, f"{enum}: generate the stubs anew (docs/python.md)"
    for service, body in re.findall(r"^service (\w+) \{(.*?)^\}", text, re.S | re.M):
        assert re.findall(r"rpc (\w+)", body) == [it.name for it in stub.DESCRIPTOR.services_by_name[service].methods]


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.DESCRIPTOR.name)
def test_the_stubs_descriptor_is_what_protoc_makes(stub, tmp_path: Path) -> None:
    protoc = shutil.which("protoc")
    if protoc is None:
        pytest.skip("no protoc here: apt-get install protobuf-compiler")
    out = tmp_path / "set"
    command = [protoc, f"--proto_path={ROOT}/proto", f"--descriptor_set_out={out}", stub.DESCRIPTOR.name]
    subprocess.run(command, check=True)
    made = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]
    assert plain(stub) == bare(made), "generate the stubs anew (docs/python.md)"


@pytest.mark.parametrize(
    "stub", [stub for stub in STUBS if stub is not agent_pb2], ids=lambda stub: stub.DESCRIPTOR.name
)
def test_the_stubs_descriptor_is_the_daemons(stub, daemon: str) -> None:
    """Reads the daemon's descriptors by reflection. The agent's protocol is not among them."""
    name = stub.DESCRIPTOR.name
    assert plain(stub) == bare(files(daemon, name)[name]), "generate the stubs anew (docs/python.md)"


def plain(stub) -> descriptor_pb2.FileDescriptorProto:
    return bare(descriptor_pb2.FileDescriptorProto.FromString(stub.DESCRIPTOR.serialized_pb))


def bare(file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    """Removes the fields that only some compilers write."""
    file.ClearField("source_code_info")

    def strip(message: descriptor_pb2.DescriptorProto) -> None:
        for field in message.field:
            field.ClearField("json_name")
        for nested in message.nested_type:
            strip(nested)

    for message in file.message_type:
        strip(message)
    return file
