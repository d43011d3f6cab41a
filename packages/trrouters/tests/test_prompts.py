"""Files of prompts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trrouters.training.prompts import HELD_OUT, TRAIN, read_prompts

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda text: bool(text.strip())
)


def test_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_bytes("\n  What is soap? \r\n\n\nWho was Æsop?\n \nlast".encode())
    assert read_prompts(file) == ["What is soap?", "Who was Æsop?", "last"]
    assert read_prompts(str(file), 2) == ["What is soap?", "Who was Æsop?"]
    assert read_prompts(file, 99) == read_prompts(file)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXTS, min_size=1, max_size=5), st.booleans())
def test_json_lines_hold_any_text(tmp_path: Path, prompts: list[str], escaped: bool) -> None:
    """Also line breaks, U+2028 and the like, which JSON needn't escape."""
    file = tmp_path / "prompts.jsonl"
    lines = [json.dumps({"prompt": p, "id": 1}, ensure_ascii=escaped) for p in prompts]
    file.write_text("\n\n".join(lines), encoding="utf-8")
    assert read_prompts(file) == prompts


@pytest.mark.parametrize(
    "line",
    ['{"prompt": "cut', "What is soap?", '{"question": "?"}', '["a"]', '"a"', "3", "null"],
)
def test_a_line_without_a_prompt_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(f'{{"prompt": "good"}}\n\n{line}\n')
    with pytest.raises(ValueError, match="expected") as caught:
        read_prompts(file)
    assert str(caught.value) == f'{file}:3: expected {{"prompt": "…"}}'


@pytest.mark.parametrize("prompt", ["3", "null", '""', '"  "', "[]"])
def test_a_prompt_that_is_no_text_is_named(tmp_path: Path, prompt: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(f'{{"prompt": {prompt}}}\n')
    with pytest.raises(ValueError, match="is not a text") as caught:
        read_prompts(file)
    assert str(caught.value).startswith(f"{file}:1: ")


@pytest.mark.parametrize("name", ["prompts.txt", "prompts.jsonl"])
def test_a_file_without_prompts(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("\n \n")
    with pytest.raises(ValueError, match="has no prompts") as caught:
        read_prompts(tmp_path / name)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["prompts.txt", "prompts.jsonl"])
def test_a_file_that_is_no_text_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"What\xff\xfe?")
    with pytest.raises(ValueError, match="is not UTF-8 text") as caught:
        read_prompts(tmp_path / name)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/nowhere/prompts.txt", "/nowhere/prompts.txt"),
        ("package://trrouters/training/prompts/none.txt", "no file 'training/prompts/none.txt'"),
        ("package://no_such_package/prompts.txt", "pip install no-such-package"),
    ],
)
def test_a_missing_file_is_named(path: str, said: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        read_prompts(path)
    assert said in str(caught.value)


def test_the_shipped_prompts() -> None:
    """No held-out prompt was trained on, in any spelling."""

    def plain(prompts: list[str]) -> set[str]:
        return {"".join(filter(str.isalnum, prompt.lower())) for prompt in prompts}

    train, held_out = read_prompts(TRAIN), read_prompts(HELD_OUT)
    assert len(plain(train)) == len(train) >= 400
    assert len(plain(held_out)) == len(held_out) >= 100
    assert not plain(train) & plain(held_out)
    assert read_prompts(HELD_OUT, 7) == held_out[:7]
