"""YAML as configurations and keys files are read: strictly, and knowing where everything stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trsched.errors import ConfigError


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key given twice, reads 1e-3 as a number (YAML 1.2), and says where values fail."""

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in seen:
                    raise _error(f"{key.value!r} is given twice", key.start_mark)
                seen.add((key.tag, key.value))
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except ValueError as error:  # of a date that is none, say
            raise _error(str(error), node.start_mark) from error


_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _error(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


@dataclass(frozen=True, slots=True)
class YamlFile:
    """A YAML text and what it says.

    source: what to call it in errors.
    text: as it was read.
    data: the same as plain data.
    """

    source: str
    text: str
    data: Any

    def place(self, field: str) -> str | None:
        """Source, line and column of a path like `instances[2].url`, or of its nearest part.

        None for a path of which nothing is there.
        """
        node, found = yaml.compose(self.text, Loader=yaml.SafeLoader), None
        for key in field_keys(field):
            node, mark = _entry(node, key) if isinstance(key, str) else _item(node, key)
            if mark is None:
                break
            found = mark
        return None if found is None else _at(self.source, found.line, found.column)


def field_keys(field: str) -> list[str | int]:
    """`models[0].url` to its keys; up to `[]`, which stands for any index."""
    found = re.findall(r"([^.\[\]]+)|\[(\d+)\]", field.partition("[]")[0])
    return [name or int(index) for name, index in found]


def read_yaml(path: Path, kind: str) -> YamlFile:
    """The file's content. kind: `config`, say, for errors.

    Raises ConfigError naming the file and, for bad YAML, line and column.
    """
    source = f"{kind} {path}"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(source, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(source, f"not UTF-8 text ({error.reason})") from error
    return parse_yaml(text, source)


def parse_yaml(text: str, source: str) -> YamlFile:
    """Text to data. Raises ConfigError naming the source, line and column."""
    try:
        return YamlFile(source, text, parse_value(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = _at(source, mark.line, mark.column) if mark else source
        raise ConfigError(place, error.problem or str(error)) from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = _at(source, before.count("\n"), len(before) - before.rfind("\n") - 1)
        raise ConfigError(place, f"{error.reason}: {chr(error.character)!r}") from error


def parse_value(text: str) -> Any:
    """Plain data. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_StrictLoader)


def _at(source: str, line: int, column: int) -> str:
    return f"{source} line {line + 1} column {column + 1}"


def _entry(node: yaml.Node | None, name: str) -> tuple[yaml.Node | None, yaml.Mark | None]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return value, key.start_mark
    return None, None


def _item(node: yaml.Node | None, index: int) -> tuple[yaml.Node | None, yaml.Mark | None]:
    if isinstance(node, yaml.SequenceNode) and index < len(node.value):
        return node.value[index], node.value[index].start_mark
    return None, None
