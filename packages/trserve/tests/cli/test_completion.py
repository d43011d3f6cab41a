"""What the shell offers after a word that has been begun."""

from __future__ import annotations

import pytest

from trserve.cli.main import main


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("trserve la", {"launch"}),
        ("trserve launch --mode ", {"routed", "llm-only", "slm-only", "official"}),
        ("trserve check --delayed-batching ", {"auto", "fixed", "off"}),
        ("trserve launch --log-level w", {"warning"}),
        ("trserve launch --preset profile", {"profile-demo"}),
        ("trserve gateway --a", {"--api-key", "--access-log", "--admin-key"}),
        ("trserve launch --ap", {"--api-key"}),
    ],
)
def test_completion(capsys, monkeypatch, words: str, offered: set[str]) -> None:
    monkeypatch.setenv("_TRSERVE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 0
    output, error = capsys.readouterr()
    assert (set(output.split()), error) == (offered, "")
