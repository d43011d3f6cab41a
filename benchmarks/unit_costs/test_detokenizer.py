"""A detokeniser's step: a token's bytes to text, where tokens end within characters too."""

from __future__ import annotations

from benchmarks.unit_costs.conftest import Cost
from trserve.server.text.detokenizer import Detokenizer

TEXT = "The sea, das Meer, море, 海, 🌊. " * 8
PIECES = [TEXT.encode()[at : at + 3] for at in range(0, len(TEXT.encode()), 3)]


def test_step(cost: Cost) -> None:
    def detokenised() -> str:
        detokenizer = Detokenizer()
        return "".join([*map(detokenizer.push, PIECES), detokenizer.finish()])

    assert cost("detokenizer_step_us", detokenised, len(PIECES)) == TEXT
