"""Requests and checks that the blocking client and the asyncio client share."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ._proto.verbatim.v1 import event_pb2, lease_pb2, run_pb2
from .address import PathLike
from .errors import VerbatimError

_PRIORITIES = ("low", "normal", "high")


def patterns(given: str | Sequence[str]) -> list[str]:
    """Returns patterns of tests as a list; a single string is one pattern."""
    return [given] if isinstance(given, str) else list(given)


def create_run(
    rig: str,
    tests: str | Sequence[str],
    seed: int,
    parameters: Mapping[str, int] | None,
    exit_first: bool,
    lease: str,
    priority: str,
    own_lease: bool,
    wait_at_most_s: int | None,
) -> run_pb2.CreateRunRequest:
    """Makes a request with a unique id. If the client sends the request twice, the daemon makes only one run."""
    if not rig and not lease:
        raise VerbatimError("INVALID_ARGUMENT", "a run needs a rig, or a lease that has one")
    waits = {} if wait_at_most_s is None else {"wait_at_most_s": wait_at_most_s}
    for name, value in {"seed": seed, **waits, **(parameters or {})}.items():
        if not isinstance(value, int) or not 0 <= value < 1 << 64:
            raise VerbatimError("INVALID_ARGUMENT", f"{name} is {value!r}: expected a whole number, 0 to 2^64 - 1")
    spec = event_pb2.RunSpec(
        rig=rig.removeprefix("rigs/"),
        patterns=patterns(tests),
        parameters=parameters or {},
        seed=seed,
        exit_first=exit_first,
    )
    return run_pb2.CreateRunRequest(
        request_id=str(uuid.uuid4()),
        spec=spec,
        lease=lease,
        priority=_priority(priority),
        own_lease=own_lease,
        wait_at_most_s=wait_at_most_s,
    )


def create_lease(rig: str, labels: str | Sequence[str], lasts_s: int, priority: str) -> lease_pb2.CreateLeaseRequest:
    """Makes a request with a unique id. If the client sends the request twice, the daemon makes only one lease."""
    return lease_pb2.CreateLeaseRequest(
        request_id=str(uuid.uuid4()),
        rig=rig,
        labels=patterns(labels),
        lasts_s=seconds(lasts_s),
        priority=_priority(priority),
    )


def seconds(lasts_s: int) -> int:
    """Checks the duration of a lease in seconds, and returns it."""
    if not isinstance(lasts_s, int) or lasts_s <= 0:
        raise VerbatimError("INVALID_ARGUMENT", f"lasts_s is {lasts_s!r}: expected seconds, a whole number from 1 on")
    return lasts_s


def _priority(word: str) -> int:
    if word not in _PRIORITIES:
        raise VerbatimError("INVALID_ARGUMENT", f"priority is {word!r}: expected {', '.join(_PRIORITIES)}")
    return lease_pb2.Priority.Value(f"PRIORITY_{word.upper()}")


def named(collection: str, given: object) -> str:
    """Returns the resource name of a run or lease. The argument is an object, `runs/ID` or `ID`."""
    name = given if isinstance(given, str) else getattr(given, "name", None)
    if not isinstance(name, str) or not name:
        raise VerbatimError("INVALID_ARGUMENT", f"{given!r} names none of {collection}")
    return name if name.startswith(f"{collection}/") else f"{collection}/{name}"


def record_of(test: str, artifacts: Iterable[str], run: str) -> str:
    """Returns the name of a test's record among a run's files, such as `001-c09-walk.rec`."""
    records = [name for name in artifacts if name.endswith(".rec")]
    for name in records:
        if name.partition("-")[2] == f"{test}.rec":
            return name
    raise VerbatimError("NOT_FOUND", f"{run} has no record of {test!r}; it has {', '.join(sorted(records)) or 'none'}")


def empty(directory: PathLike) -> Path:
    """Makes the directory if necessary, and returns it. Raises FileExistsError when it is not empty."""
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        raise FileExistsError(f"{place} is not empty; a bundle is never written over")
    return place


def in_order(artifacts: Iterable[str], run: str) -> list[str]:
    """Returns the files in download order. The manifest is last, because a bundle is complete only with its
    manifest."""
    names = sorted(artifacts, key=lambda name: (name == "manifest.json", name))
    for name in names:
        if Path(name).name != name or name in (".", ".."):
            raise VerbatimError("DATA_LOSS", f"{run}: the daemon names a file {name!r}, which is no plain name")
    return names


def check_bundle(place: Path, run: str) -> None:
    """Raises VerbatimError DATA_LOSS when a file differs from the manifest. The bundle of an interrupted run has
    no manifest and is not checked."""
    manifest = place / "manifest.json"
    if not manifest.exists():
        return
    for file in json.loads(manifest.read_bytes())["files"]:
        path = place / file["name"]
        if not path.exists():
            raise VerbatimError("DATA_LOSS", f"{run}: the manifest lists {path.name}, which did not come")
        with path.open("rb") as content:
            seen = hashlib.file_digest(content, "sha256").hexdigest()
        if seen != file["sha256"]:
            raise VerbatimError("DATA_LOSS", f"{path}: expected SHA-256 {file['sha256']}, seen {seen}")
