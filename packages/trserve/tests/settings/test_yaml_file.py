"""YAML is read strictly, and what is wrong is named with line and column."""

from __future__ import annotations

import pytest

from trsched.errors import ConfigError
from trserve.settings.config_file import parse_config
from trserve.settings.yaml_file import parse_yaml


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected settings"),
        ("- a\n", "found a list"),
        ("just text", "found a str"),
        ("a: 1\nb: [\n", "line 3 column 1"),
        ("a: 1\na: 2\n", "line 2 column 1: 'a' is given twice"),
        ("a:\n  b: 1\n  b: 1\n", "line 3 column 3: 'b' is given twice"),
        ("a: {'b': 1, \"b\": 1}", "line 1 column 13: 'b' is given twice"),
        ("a: !!python/object:os.system 1", "line 1 column 4"),
        ("a: \x00", "config f line 1 column 4: special characters are not allowed"),
        ("a: 1\nb: é\x07", "config f line 2 column 5: special characters are not allowed"),
        ("? [a]\n: 1", "line 1 column 3"),
        ("a:\n- 2024-13-45", "line 2 column 3: month must be in 1..12"),
    ],
)
def test_bad_yaml(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "config f")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("-2E4", -2e4),
        ("1.5e1", 15.0),
        ("e3", "e3"),
        ("3", 3),
        ("210e84269846b00ea", "210e84269846b00ea"),
        ("1e5 apples", "1e5 apples"),
    ],
)
def test_numbers(text, value):
    assert parse_config(f"a: {text}", "config f").data == {"a": value}


def test_merge_keys_still_work():
    text = "base: &b {x: 1, y: 2}\nchild: {<<: *b, x: 3}\n"
    assert parse_config(text, "config f").data["child"] == {"x": 3, "y": 2}


def test_a_merged_key_may_be_given_anew_wherever_its_base_stands():
    text = "top: {base: &b {<<: {x: 1}, x: 2}}\nother: {<<: *b, x: 3}\n"
    assert parse_config(text, "config f").data["other"] == {"x": 3}


def test_switches_are_as_in_yaml_1_1():
    assert parse_config("{a: off, b: yes, c: 'off'}", "f").data == {
        "a": False,
        "b": True,
        "c": "off",
    }


TEXT = """\
server: {port: 0}
models:
  - name: small
    tpot_s: 0.012
  - {name: large,
     tpot_s: 0.04}
instances:
  - name: a
    model: small
    url: http://127.0.0.1:9001
"""


@pytest.mark.parametrize(
    ("field", "line", "column"),
    [
        ("models[0].tpot_s", 4, 5),
        ("models[1].tpot_s", 6, 6),
        ("models[1].nothing", 5, 5),
        ("instances[0].url", 10, 5),
        ("instances[3].url", 7, 1),
        ("models[].tpot_s", 2, 1),
        ("server.port", 1, 10),
        ("weights", None, None),
    ],
)
def test_where_a_setting_stands(field, line, column):
    place = None if line is None else f"config f line {line} column {column}"
    assert parse_yaml(TEXT, "config f").place(field) == place
