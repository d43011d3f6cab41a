"""Reading YAML strictly, and `--set`."""

from __future__ import annotations

import pytest

from trsched.errors import ConfigError
from trserve.settings.config_file import apply_changes, parse_change, parse_config, read_config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected settings"),
        ("- a\n", "found a list"),
        ("just text", "found a str"),
        ("a: 1\nb: [\n", "line 3"),
        ("a: 1\na: 2\n", "line 2: 'a' is given twice"),
        ("a:\n  b: 1\n  b: 1\n", "'b' is given twice"),
        ("a: !!python/object:os.system 1", "line 1"),
        ("a: \x00", "config f"),
        ("? [a]\n: 1", "line 1"),
    ],
)
def test_bad_yaml(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "f")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"), [("1e-3", 1e-3), ("-2E4", -2e4), ("1.5e1", 15.0), ("e3", "e3"), ("3", 3)]
)
def test_numbers(text, value):
    assert parse_config(f"a: {text}", "f") == {"a": value}


def test_merge_keys_still_work():
    text = "base: &b {x: 1, y: 2}\nchild: {<<: *b, x: 3}\n"
    assert parse_config(text, "f")["child"] == {"x": 3, "y": 2}


def test_paths_are_relative_to_the_file(tmp_path):
    (tmp_path / "c.yaml").write_text(
        "models: [{path: m.gguf}, {path: /abs.gguf}, {path: 'package://p/f'}, {path: ~/h}, {}, 3]"
    )
    models = read_config(tmp_path / "c.yaml")["models"]
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
    assert read_config(tmp_path / "c.yaml") == {"router": expected}


@pytest.mark.parametrize(
    "text", ["router: r2r", "router: {name: me}", "router: {settings: 3}", "router: {settings: }"]
)
def test_other_routers_stay_as_they_are(tmp_path, text):
    (tmp_path / "c.yaml").write_text(text)
    assert read_config(tmp_path / "c.yaml") == parse_config(text, "f")


def test_set_is_relative_to_where_one_is(tmp_path):
    (tmp_path / "c.yaml").write_text("router: {name: r2r, settings: {checkpoint: mine}}")
    change = parse_change("router.settings.checkpoint=other")
    changed = apply_changes(read_config(tmp_path / "c.yaml"), [change])
    assert changed["router"]["settings"] == {"checkpoint": "other"}


def test_unreadable_files(tmp_path):
    (tmp_path / "latin").write_bytes(b"a: \xff")
    for name, message in (("none", "No such file"), (".", "directory"), ("latin", "UTF-8")):
        with pytest.raises(ConfigError, match=message):
            read_config(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("a=2", {"a": 2, "l": [{"x": 1}]}),
        ("b.c.d=1e-2", {"a": 1, "b": {"c": {"d": 0.01}}, "l": [{"x": 1}]}),
        ("l[0].x=", {"a": 1, "l": [{"x": None}]}),
        ("l.0.x={y: [1, 2]}", {"a": 1, "l": [{"x": {"y": [1, 2]}}]}),
        ("a=x=y", {"a": "x=y", "l": [{"x": 1}]}),
    ],
)
def test_set(change, expected):
    data = {"a": 1, "l": [{"x": 1}]}
    assert apply_changes(data, [parse_change(change)]) == expected
    assert data == {"a": 1, "l": [{"x": 1}]}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("novalue", "--set"),
        ("=3", "--set"),
        ("a..b=3", "--set"),
        ("a=[", "--set a"),
        ("l[1].x=2", "--set l[1]"),
        ("l.x=2", "--set l[x]"),
        ("a.b=2", "--set a.b"),
    ],
)
def test_impossible_set(change, field):
    with pytest.raises(ConfigError) as caught:
        apply_changes({"a": 1, "l": [{"x": 1}]}, [parse_change(change)])
    assert caught.value.field == field
