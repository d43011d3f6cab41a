"""Our reading of a checkpoint's tokenizer and chat template against transformers' own.

Runs where SGLang is installed, which brings transformers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers", reason="trsched[huggingface] is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from hypothesis import given
from hypothesis import strategies as st

from tests.support.trsched.hf_folders import CONTROL, hf_folder
from trsched.models.hf_config import read_hf_config
from trsched.models.hf_vocabulary import HfVocabulary
from trserve.server.text.tokenizer import Tokenizer

PARTS = st.sampled_from([*CONTROL, "<think>", "the quick ", "🙂", "e\u0301", " \n", "こ"])
TEXTS = st.lists(PARTS | st.text(max_size=5), max_size=8).map("".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hf_folder(tmp_path_factory.mktemp("hf") / "small")


@pytest.fixture(scope="module")
def ours(folder: Path) -> Tokenizer:
    config = read_hf_config(folder / "config.json", "path")
    return Tokenizer(HfVocabulary(folder, config, "path", name="small"))


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    transformers = pytest.importorskip("transformers")
    return transformers.PreTrainedTokenizerFast.from_pretrained(folder)


@given(TEXTS)
def test_tokens_and_text(ours: Tokenizer, theirs: Any, text: str) -> None:
    ids = ours.vocabulary.encode(text, special=True)
    assert ids == theirs.encode(text, add_special_tokens=False)
    streamed = b"".join(ours.pieces[token] for token in ids).decode()
    assert streamed == theirs.decode(
        ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )


@given(TEXTS.filter(lambda text: not any(control in text for control in CONTROL)))
def test_conversations(ours: Tokenizer, theirs: Any, text: str) -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]
    ids = theirs.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert ours.encode_chat_now(messages) == ids
