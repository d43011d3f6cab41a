"""The playground page as HTTP sees it; what it does in a browser is tested in `tests/browser`."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import PurePath

import pytest

from tests.support.trserve.demo_server import Demo, demo_server

FILES = sorted(entry.name for entry in files("trserve").joinpath("playground").iterdir())
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/2000/svg\b)")


def test_the_page(demo: Demo) -> None:
    answer = demo.http.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.text.startswith("<!doctype html>")
    named = re.findall(r'(?:src|href)="(playground/[^"]+)"', answer.text)
    assert set(named) >= {"playground/style.css", "playground/app.js"}
    for name in named:
        assert demo.http.get("/" + name).status_code == 200


@pytest.mark.parametrize("name", FILES)
def test_each_file_has_its_type_and_a_strict_policy(demo: Demo, name: str) -> None:
    answer = demo.http.get(f"/playground/{name}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == TYPES[PurePath(name).suffix]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-cache"
    policy = answer.headers["content-security-policy"].split("; ")
    assert policy[0] == "default-src 'self'"
    assert "frame-ancestors 'none'" in policy
    assert not any("unsafe" in directive for directive in policy)


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_enough_in_itself(name: str) -> None:
    text = files("trserve").joinpath("playground", name).read_text("utf-8")
    assert not ELSEWHERE.search(text), "asks for something on another host"
    imported = re.findall(r'from "\./([^"]+)"', text)
    assert set(imported) <= set(FILES)
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(", text)
    if name.endswith(".js"):
        assert text.count("\n") < 250
        assert text.startswith("/**")


def test_what_is_known_is_not_sent_again(demo: Demo) -> None:
    etag = demo.http.get("/").headers["etag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = demo.http.get("/", headers={"if-none-match": known})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == etag
    assert demo.http.get("/", headers={"if-none-match": '"other"'}).status_code == 200
    assert demo.http.get("/playground/app.js").headers["etag"] != etag


@pytest.mark.parametrize(
    "name", ["nothing.js", "..%2f__init__.py", "../app.py", "%2e%2e/app.py", ""]
)
def test_nothing_else_is_served(demo: Demo, name: str) -> None:
    answer = demo.http.get(f"/playground/{name}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


def test_the_page_is_no_part_of_the_api(demo: Demo) -> None:
    paths = demo.http.get("/openapi.json").json()["paths"]
    assert not [path for path in paths if path == "/" or path.startswith("/playground")]
    assert demo.http.post("/").status_code == 405


def test_the_files_need_no_key() -> None:
    with demo_server(api_key="secret") as demo:
        assert demo.http.get("/").status_code == 200
        assert demo.http.get("/playground/app.js").status_code == 200
        assert demo.http.get("/v1/models").status_code == 401
