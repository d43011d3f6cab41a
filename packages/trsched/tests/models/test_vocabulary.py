"""The vocabulary of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trsched.models.vocabulary import ByteVocabulary


@given(st.text(), st.booleans())
def test_round_trip(text: str, special: bool) -> None:
    vocabulary = ByteVocabulary()
    ids = vocabulary.encode(text, special=special)
    assert all(0 <= token < 256 for token in ids)
    assert b"".join(map(vocabulary.piece, ids)).decode() == text


@pytest.mark.parametrize("token", [256, 257, 299])
def test_other_tokens_have_no_text(token: int) -> None:
    assert ByteVocabulary(300).piece(token) == b""


def test_the_end_is_a_token_of_it() -> None:
    vocabulary = ByteVocabulary()
    assert vocabulary.stop_ids == {256}
    assert max(vocabulary.stop_ids) < vocabulary.size


def test_fingerprint_is_that_of_the_size() -> None:
    assert ByteVocabulary(257).fingerprint == ByteVocabulary(257, 99).fingerprint
    assert ByteVocabulary(257).fingerprint != ByteVocabulary(258).fingerprint
