"""The README's table of settings is what the settings' fields say."""

from __future__ import annotations

from pathlib import Path

from trserve.settings.server_settings import ALL_SETTINGS
from trserve.settings.setting import Setting

README = Path(__file__).parents[2] / "README.md"


def row(setting: Setting) -> str:
    default = setting.default_text
    shown = default if setting.default is None else f"`{default}`"
    remark = "; prefer the environment, others can see flags" if setting.secret else ""
    cells = (
        f"`{setting.flag}`",
        f"`{setting.variable}`",
        f"`{setting.key}`",
        shown,
        f"{setting.field.description}{remark}",
    )
    return f"| {' | '.join(cells)} |"


def test_the_table_is_generated() -> None:
    table = "\n".join(map(row, ALL_SETTINGS.values()))
    found = [line for line in README.read_text("utf-8").splitlines() if line.startswith("| `--")]
    assert "\n".join(found) == table, f"the table in {README} must be:\n{table}"


def test_every_setting_says_what_it_means() -> None:
    """In a text that fits into a cell of the table and begins a sentence of `--help`."""
    for setting in ALL_SETTINGS.values():
        description = setting.field.description
        assert description, setting.name
        assert "|" not in description
        assert not description.endswith(".")
