"""What all request objects have in common: no unknown fields, no conversions, no NaN."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, WithJsonSchema
from pydantic_core import PydanticCustomError


class StrictModel(BaseModel):
    """Base of every request object."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, protected_namespaces=()
    )


def _valid_unicode(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("unicode", "is not valid Unicode: it has half a pair") from None
    return value


UnicodeStr = Annotated[str, AfterValidator(_valid_unicode)]
"""A string without lone surrogates, which JSON can write but UTF-8 cannot."""


def only(*harmless: Any) -> tuple[AfterValidator, WithJsonSchema]:
    """Metadata of an OpenAI field that this server does not support.

    Values that ask for nothing are taken, so that clients may send their defaults; any other is a
    400. Use: `Annotated[Any, *only(None, [])]`.
    """

    def check(value: Any) -> Any:
        if any(_same(value, allowed) for allowed in harmless):
            return value
        shown = " or ".join(_shown(allowed) for allowed in harmless if allowed is not None)
        hint = f" except as {shown}" if shown else ""
        raise PydanticCustomError("unsupported", "{text}", {"text": f"is not supported{hint}"})

    schema = {"enum": list(harmless), "description": "Not supported; may be sent with this value."}
    return AfterValidator(check), WithJsonSchema(schema)


def _same(value: Any, allowed: Any) -> bool:
    """JSON's equality: 0 and 0.0 are the same, 0 and false are not."""
    return isinstance(value, bool) == isinstance(allowed, bool) and bool(value == allowed)


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()
