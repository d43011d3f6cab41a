"""Configuration files: settings, and paths that start at the file's folder."""

from __future__ import annotations

import pytest

from trsched.errors import ConfigError
from trserve.settings.changes import apply_changes, parse_change
from trserve.settings.config_file import parse_config, read_config


def test_paths_are_relative_to_the_file(tmp_path):
    (tmp_path / "c.yaml").write_text(
        "models: [{path: m.gguf}, {path: /abs.gguf}, {path: 'package://p/f'}, {path: ~/h}, {}, 3]"
    )
    models = read_config(tmp_path / "c.yaml").data["models"]
    assert [m.get("path") for m in models[:4]] == [
        str(tmp_path / "m.gguf"),
        "/abs.gguf",
        "package://p/f",
        "~/h",
    ]


@pytest.mark.parametrize(
    ("given", "anchored"),
    [
        ("routers/r2r", "{folder}/routers/r2r"),
        ("../r2r", "{folder}/../r2r"),
        ("/abs/r2r", "/abs/r2r"),
        ("~/r2r", "~/r2r"),
        ("package://p/r2r", "package://p/r2r"),
        ("3", 3),
        ("[a, b]", ["a", "b"]),
        ("null", None),
    ],
)
def test_the_checkpoint_is_relative_to_the_file(tmp_path, given, anchored):
    text = f"router: {{name: r2r, settings: {{checkpoint: {given}, threshold: 0.5}}}}"
    (tmp_path / "c.yaml").write_text(text)
    if isinstance(anchored, str):
        anchored = anchored.format(folder=tmp_path)
    expected = {"name": "r2r", "settings": {"checkpoint": anchored, "threshold": 0.5}}
    assert read_config(tmp_path / "c.yaml").data == {"router": expected}


@pytest.mark.parametrize(
    "text", ["router: r2r", "router: {name: me}", "router: {settings: 3}", "router: {settings: }"]
)
def test_other_routers_stay_as_they_are(tmp_path, text):
    (tmp_path / "c.yaml").write_text(text)
    assert read_config(tmp_path / "c.yaml").data == parse_config(text, "config f").data


def test_set_is_relative_to_where_one_is(tmp_path):
    (tmp_path / "c.yaml").write_text("router: {name: r2r, settings: {checkpoint: mine}}")
    change = parse_change("router.settings.checkpoint=other")
    changed = apply_changes(read_config(tmp_path / "c.yaml").data, [change])
    assert changed["router"]["settings"] == {"checkpoint": "other"}


def test_unreadable_files(tmp_path):
    (tmp_path / "latin").write_bytes(b"a: \xff")
    for name, message in (("none", "No such file"), (".", "directory"), ("latin", "UTF-8")):
        with pytest.raises(ConfigError, match=message):
            read_config(tmp_path / name)
