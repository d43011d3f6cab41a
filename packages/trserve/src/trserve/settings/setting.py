"""What one setting is: its flag, variable, key in the file, type, default and meaning."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

ENV_PREFIX = "TRSERVE_"


@dataclass(frozen=True, slots=True)
class Shown:
    """How a setting is shown where its type and default don't say it.

    metavar: what `--help` puts for the value.
    default: words for a default of None.
    off: the flag that turns a boolean off.
    """

    metavar: str | None = None
    default: str = "none"
    off: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of a settings model.

    name: the field's.
    section: what precedes the name in the file, `server.` or nothing.
    default: None where there is none; `shown.default` then says it in words.
    """

    name: str
    section: str
    field: FieldInfo
    default: object

    @property
    def flag(self) -> str:
        """On command lines."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """In the environment."""
        return ENV_PREFIX + self.name.upper()

    @property
    def key(self) -> str:
        """In the file, as a path."""
        return self.section + self.name

    @property
    def shown(self) -> Shown:
        """Beside what type and default say."""
        return next((each for each in self.field.metadata if isinstance(each, Shown)), Shown())

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that there are; empty for any."""
        return next((get_args(each) for each in self._types if get_origin(each) is Literal), ())

    @property
    def secret(self) -> bool:
        """Its value is never shown."""
        return SecretStr in self._types

    @property
    def flag_type(self) -> type:
        """As which a command line's word is read; what it must be beside is checked later."""
        return next((each for each in (bool, int, float, Path) if self._types == [each]), str)

    @property
    def default_text(self) -> str:
        """The default as it would be given, or in words."""
        if self.default is None:
            return self.shown.default
        return self.default if isinstance(self.default, str) else json.dumps(self.default)

    @property
    def _types(self) -> list[Any]:
        """Without None, and without what annotations add."""
        annotation = self.field.annotation
        parts = [annotation] if get_origin(annotation) in (None, Literal) else get_args(annotation)
        plain = [get_args(each)[0] if get_origin(each) is Annotated else each for each in parts]
        return [each for each in plain if each is not NoneType]
