"""Files that commands write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trsched.errors import ConfigError
from trserve.cli.output_file import check_writable, write_whole


def test_what_is_no_ordinary_file_is_not_replaced(tmp_path: Path) -> None:
    """As root, `--out /dev/null` would make a file of the device."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="no ordinary file"):
        check_writable(pipe, "--out")


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "there"
    path.write_text("old")
    check_writable(path, "--out")
    write_whole(path, "--out", b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]
