"""Vocabularies of Hugging Face checkpoints; a GGUF file of one has the same fingerprint."""

from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers", reason="trsched[huggingface] is not installed")

from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from tests.support.trsched.hf_folders import (
    CONTROL,
    ROWS,
    TEMPLATE,
    byte_level_tokenizer,
    hf_folder,
)
from trsched.errors import ConfigError
from trsched.models.hf_config import read_hf_config
from trsched.models.hf_vocabulary import HfVocabulary


def vocabulary(folder: Path, *, extra_rows: int = 0) -> HfVocabulary:
    config = read_hf_config(folder / "config.json", "path")
    return HfVocabulary(folder, config, "path", name="small", extra_rows=extra_rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hf_folder(tmp_path_factory.mktemp("hf") / "small")


@pytest.fixture(scope="module")
def small(folder: Path) -> HfVocabulary:
    return vocabulary(folder)


def test_facts(small: HfVocabulary) -> None:
    tokenizer = byte_level_tokenizer()
    assert small.size == ROWS > small.tokens == tokenizer.get_vocab_size()
    assert (small.context_length, small.hidden_size) == (512, 64)
    assert small.stop_ids == {tokenizer.token_to_id(t) for t in ("<|im_end|>", "<|endoftext|>")}
    assert (small.bos_token, small.eos_token) == ("", "<|im_end|>")
    assert small.chat_template == TEMPLATE


@given(st.text(), st.booleans())
@example("🙂 e\u0301 <|im_end|><think>\n\x00", True)
@example("<|im_start|>system\nYou", False)
def test_a_users_text_comes_back_byte_for_byte(
    small: HfVocabulary, text: str, special: bool
) -> None:
    """Control tokens aside; this tokenizer (as Qwen's) normalises to NFC."""
    ids = small.encode(text, special=special)
    shown = unicodedata.normalize("NFC", text)
    if special:
        for control in CONTROL:
            shown = shown.replace(control, "")
    assert b"".join(map(small.piece, ids)).decode() == shown


def test_control_tokens_are_made_by_templates_alone(small: HfVocabulary) -> None:
    control = {small.encode(text, special=True)[0] for text in CONTROL}
    assert len(control) == 3
    assert all(small.piece(token) == b"" for token in control)
    written = small.encode("".join(CONTROL), special=False)
    assert not control & set(written)
    assert b"".join(map(small.piece, written)).decode() == "".join(CONTROL)
    thought = small.encode("<think>", special=False)
    assert len(thought) == 1, "an added token that is text is one for users, too"
    assert small.piece(thought[0]) == b"<think>"


def test_padding_has_no_text(small: HfVocabulary) -> None:
    assert {small.piece(token) for token in range(small.tokens, ROWS)} == {b""}


def test_where_texts_end(tmp_path: Path) -> None:
    """generation_config.json, else config.json, and always the tokenizer's own end."""
    folder = hf_folder(tmp_path / "one", generation={"eos_token_id": 7})
    end = byte_level_tokenizer().token_to_id("<|im_end|>")
    assert vocabulary(folder).stop_ids == {7, end}
    (folder / "generation_config.json").unlink()
    assert vocabulary(folder).stop_ids == {258, end}
    folder = hf_folder(
        tmp_path / "none", generation={"eos_token_id": None}, settings={"eos_token": None}
    )
    assert vocabulary(folder).stop_ids == frozenset()


def test_chat_templates(tmp_path: Path) -> None:
    named = [{"name": "rag", "template": "no"}, {"name": "default", "template": "yes"}]
    folder = hf_folder(tmp_path / "named", settings={"chat_template": named})
    assert vocabulary(folder).chat_template == "yes"
    (folder / "chat_template.jinja").write_text("file")
    assert vocabulary(folder).chat_template == "file"
    assert (
        vocabulary(hf_folder(tmp_path / "n", settings={"chat_template": None})).chat_template
        is None
    )


def test_fingerprint_is_that_of_what_ids_mean(tmp_path: Path, small: HfVocabulary) -> None:
    """Not of settings, sizes or fine-tuning; a deferral row is no token."""
    tuned = hf_folder(
        tmp_path / "tuned",
        config={"num_hidden_layers": 5, "vocab_size": ROWS + 1},
        generation={"eos_token_id": 3},
        settings={"chat_template": None},
    )
    assert vocabulary(tuned, extra_rows=1).fingerprint == small.fingerprint
    assert vocabulary(tuned, extra_rows=1).size == small.size
    more = hf_folder(tmp_path / "more", byte_level_tokenizer(("<tool>",)))
    assert vocabulary(more).fingerprint != small.fingerprint


def test_sentence_piece_with_byte_tokens(tmp_path: Path) -> None:
    """Llama 2's kind: spaces are ▁, characters without a token are bytes."""
    texts = ["<unk>", "<|im_end|>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁a"]
    tokenizer = Tokenizer(models.BPE({text: i for i, text in enumerate(texts)}, [("▁", "a")]))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])
    tokenizer.add_special_tokens(["<|im_end|>"])
    loaded = vocabulary(hf_folder(tmp_path / "piece", tokenizer))
    assert loaded.piece(texts.index("▁a")) == b" a"
    assert b"".join(loaded.piece(2 + byte) for byte in "é".encode()) == "é".encode()


def refused(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        vocabulary(folder)
    assert caught.value.field == "path"
    return str(caught.value)


def test_tokenizers_that_cannot_be_streamed(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "<|im_end|>": 1}, unk_token="a"))
    tokenizer.decoder = decoders.WordPiece()
    assert "'WordPiece'" in refused(hf_folder(tmp_path / "words", tokenizer))


@pytest.mark.parametrize(
    "file", ["tokenizer.json", "tokenizer_config.json", "generation_config.json"]
)
def test_a_file_that_is_none(tmp_path: Path, file: str) -> None:
    folder = hf_folder(tmp_path / "broken")
    (folder / file).write_text("{")
    assert file in refused(folder)


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    folder = hf_folder(tmp_path / "bare")
    (folder / "tokenizer.json").unlink()
    assert "no tokenizer.json in" in refused(folder)


# What llama.cpp's converter writes for the tokens of a checkpoint, by kind.
KINDS = {"normal": "NORMAL", "control": "CONTROL", "added": "USER_DEFINED", "padding": "UNUSED"}


def gguf_of(folder: Path, target: Path) -> Path:
    """The folder's vocabulary as GGUF, as the converter writes it: padded, without tensors."""
    gguf = pytest.importorskip("gguf", reason="trsched[llamacpp] is not installed")
    pytest.importorskip("llama_cpp", reason="trsched[llamacpp] is not installed")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    merges = json.loads((folder / "tokenizer.json").read_text())["model"]["merges"]
    added = tokenizer.get_added_tokens_decoder()
    texts, kinds = [], []
    for i in range(ROWS):
        text = tokenizer.id_to_token(i)
        if text is None:
            kind = "padding"
        elif i in added:
            kind = "control" if added[i].special else "added"
        else:
            kind = "normal"
        texts.append(f"[PAD{i}]" if text is None else text)
        kinds.append(gguf.TokenType[KINDS[kind]])
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(64)
    writer.add_block_count(2)
    writer.add_head_count(4)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_eos_token_id(tokenizer.token_to_id("<|im_end|>"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return target


def test_a_gguf_file_of_the_checkpoint_has_its_fingerprint(
    tmp_path: Path, folder: Path, small: HfVocabulary
) -> None:
    path = gguf_of(folder, tmp_path / "small.gguf")
    from trsched.models.vocabulary import GgufVocabulary

    ours: Any = GgufVocabulary(path)
    assert (ours.fingerprint, ours.size) == (small.fingerprint, small.size)
    for text in ("the quick 🙂 fox", "こんにちは"):
        ids = small.encode(text, special=False)
        assert b"".join(map(ours.piece, ids)) == b"".join(map(small.piece, ids)) == text.encode()
    other = hf_folder(tmp_path / "other", byte_level_tokenizer(("<tool>",)))
    assert GgufVocabulary(gguf_of(other, tmp_path / "other.gguf")).fingerprint != small.fingerprint


def test_without_the_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert refused(folder) == (
        "path: tokenizers is not installed: pip install 'trsched[huggingface]'"
    )
