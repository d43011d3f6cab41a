"""rbalance.demo: the file is what its generator makes, and fit to learn from."""

from __future__ import annotations

import msgspec

from rbalance import read_records, summarise
from rbalance.demo import DEMO_PROMPTS
from rbalance.demo.generate import KINDS, MODELS, demo_records


def test_the_file_is_what_the_generator_makes() -> None:
    made = b"".join(msgspec.json.encode(record) + b"\n" for record in demo_records())
    assert DEMO_PROMPTS.read_bytes() == made


def test_bigger_models_are_better_and_no_single_one_is_best_everywhere() -> None:
    found = summarise(read_records(DEMO_PROMPTS))
    assert found.prompts == 40 * len(KINDS)
    assert set(found.complete_models) == set(MODELS)
    qualities = [found.models[name].quality for name in MODELS]
    assert qualities == sorted(qualities)
    assert found.oracle_quality > qualities[-1] + 0.02
