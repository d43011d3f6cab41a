"""The JSON header of a saved artefact: what it is, and in which version of its format."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from rbalance.errors import ArtefactError


class ArtefactHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every header begins with.

    format: name and version of the rest.
    """

    format: str


Header = TypeVar("Header", bound=ArtefactHeader)


def read_header(path: Path, kind: type[Header], wanted: str) -> Header:
    """The header in a file. Raises ArtefactError, also for another format than `wanted`."""
    try:
        header = msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise ArtefactError(f"{path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ArtefactError(f"{path}: {error}") from error
    if header.format != wanted:
        raise ArtefactError(f"{path}: format {header.format!r} is not {wanted!r}")
    return header
