"""Where in a YAML text a setting stands, for errors that name the line."""

from __future__ import annotations

import re

import yaml


def line_of(text: str, field: str) -> int | None:
    """The line (from 1) of a path like `instances[2].url`, or of the nearest part that is there.

    None for a path of which nothing is there, or a text that is no YAML.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    found = None
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", field):
        node, line = _entry(node, name) if name else _item(node, int(index))
        if line is None:
            break
        found = line
    return found


def _entry(node: yaml.Node | None, name: str) -> tuple[yaml.Node | None, int | None]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return value, key.start_mark.line + 1
    return None, None


def _item(node: yaml.Node | None, index: int) -> tuple[yaml.Node | None, int | None]:
    if isinstance(node, yaml.SequenceNode) and index < len(node.value):
        item = node.value[index]
        return item, item.start_mark.line + 1
    return None, None
