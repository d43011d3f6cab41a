"""The error object, which is the body of every response that is not 2xx."""

from __future__ import annotations

from pydantic import BaseModel


class ErrorDetail(BaseModel):
    """What went wrong.

    message: for people.
    type: OpenAI's kind of error.
    param: path of the field at fault.
    code: stable, for programs.
    """

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """Every answer that is not 2xx."""

    error: ErrorDetail
