"""The playground page: `GET /`, and its files under `/playground/`. No key: they hold no secret."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import PurePath

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

router = APIRouter(include_in_schema=False)

_INDEX = "index.html"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Nothing from elsewhere, nothing inline, in nobody's frame; text never becomes markup.
_POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'"
)


@dataclass(frozen=True, slots=True)
class _PageFile:
    content: bytes
    media_type: str
    etag: str


@router.get("/")
async def playground(request: Request) -> Response:
    """The page."""
    return _answer(request, _INDEX)


@router.get("/playground/{file}")
async def playground_file(file: str, request: Request) -> Response:
    """A file of the page."""
    return _answer(request, file)


def _answer(request: Request, name: str) -> Response:
    page_file = _page_files().get(name)
    if page_file is None:
        raise HTTPException(404)
    headers = {
        "cache-control": "no-cache",  # kept, but asked for again each time: see etag
        "content-security-policy": _POLICY,
        "etag": page_file.etag,
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
    if _is_known(request.headers.get("if-none-match", ""), page_file.etag):
        return Response(status_code=304, headers=headers)
    return Response(page_file.content, headers=headers, media_type=page_file.media_type)


@cache
def _page_files() -> dict[str, _PageFile]:
    """All of them, by name: what isn't here can't be asked for."""
    found = {}
    for entry in files("trserve").joinpath("playground").iterdir():
        media_type = _TYPES.get(PurePath(entry.name).suffix)
        if media_type is not None:
            content = entry.read_bytes()
            etag = f'"{sha256(content).hexdigest()[:32]}"'
            found[entry.name] = _PageFile(content, media_type, etag)
    return found


def _is_known(if_none_match: str, etag: str) -> bool:
    """By weak comparison, as RFC 9110 wants it for `If-None-Match`."""
    known = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return etag in known or "*" in known
