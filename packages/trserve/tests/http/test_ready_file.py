"""The file that says the server is ready."""

from __future__ import annotations

import json
import os

import pytest

from trsched.errors import ConfigError
from trserve.http.ready_file import ready_file


def test_appears_whole_and_goes(tmp_path):
    path = tmp_path / "ready"
    path.write_text("left by a crash")
    with ready_file(path) as ready:
        assert not path.exists()
        ready.write("http://127.0.0.1:1")
        assert json.loads(path.read_text()) == {"url": "http://127.0.0.1:1", "pid": os.getpid()}
        assert list(tmp_path.iterdir()) == [path]
    assert not path.exists()


def test_none_is_fine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with ready_file(None) as ready:
        ready.write("http://x")
        assert list(tmp_path.iterdir()) == []


def test_impossible_places(tmp_path):
    for path in (tmp_path / "no" / "such", tmp_path):
        with pytest.raises(ConfigError, match=r"server\.ready_file"), ready_file(path):
            pass
