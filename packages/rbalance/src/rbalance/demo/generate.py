"""How the demo set was made: `python -m rbalance.demo.generate` prints it.

A prompt is a template of its kind filled in at random. A model of skill s answers a prompt of
difficulty d right with probability 1 / (1 + exp(-(s - d) / 0.8)); kinds favour some models. Answer
lengths are log-normal around the kind's usual length times the model's talkativeness.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from rbalance.labels.records import LabelledPrompt

SEED = 7
PER_KIND = 40
STEEPNESS = 0.8
SPREAD = 0.35


@dataclass(frozen=True, slots=True)
class Kind:
    """Prompts alike: `difficulty` and usual answer length in characters; `bonus` of skill."""

    name: str
    templates: tuple[str, ...]
    difficulty: float
    chars: int
    bonus: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


MODELS = ("demo-3b", "demo-7b", "demo-14b", "demo-72b")
SKILL = (0.0, 0.7, 1.3, 2.4)
TALK = (0.7, 0.9, 1.1, 1.5)

FILL = {
    "number": [str(number) for number in range(12, 99)],
    "large": [str(number) for number in range(1013, 9973, 89)],
    "animal": ["otter", "heron", "badger", "newt", "lynx", "stork", "hedgehog", "trout"],
    "thing": ["kettle", "bicycle", "lantern", "violin", "compass", "ladder", "mirror", "anchor"],
    "place": ["Lisbon", "Oslo", "Nairobi", "Quito", "Hanoi", "Riga", "Perth", "Kyoto"],
    "name": ["Mara", "Tomas", "Ines", "Jonas", "Leila", "Piotr", "Anouk", "Ravi"],
    "language": ["French", "Spanish", "German", "Polish", "Portuguese", "Swedish"],
    "topic": ["tides", "vaccines", "inflation", "photosynthesis", "glaciers", "magnets"],
    "structure": ["linked list", "binary heap", "hash table", "trie", "ring buffer", "skip list"],
    "table": ["orders", "visits", "invoices", "sensors", "members", "flights"],
    "mood": ["cheerful", "wistful", "angry", "calm", "curious", "solemn"],
}

KINDS = (
    Kind(
        "sum",
        ("What is {number} plus {number}?", "Add {number} and {number}.", "{number} - {number}?"),
        difficulty=-1.5,
        chars=40,
    ),
    Kind(
        "product",
        (
            "What is {large} times {number}?",
            "Multiply {large} by {large} and show the steps.",
            "Compute {large} × {number} without a calculator.",
        ),
        difficulty=2.2,
        chars=420,
    ),
    Kind(
        "word problem",
        (
            "{name} has {number} coins and earns {number} a day. When are there {large}?",
            "Two trains {large} km apart leave at {number} and {number} km/h. When do they meet?",
        ),
        difficulty=1.4,
        chars=600,
    ),
    Kind(
        "translation",
        (
            "Translate into {language}: The {animal} sleeps under the {thing}.",
            "How do you say 'where is the {thing}?' in {language}?",
        ),
        difficulty=0.2,
        chars=60,
    ),
    Kind(
        "fact",
        (
            "Which is further north, {place} or {place}?",
            "Do {animal}s live near {place}?",
            "Who invented the {thing}, and in which century?",
        ),
        difficulty=-0.8,
        chars=120,
    ),
    Kind(
        "explanation",
        (
            "Explain {topic} to {name}, who is ten.",
            "Why do {topic} matter in {place}? Give three reasons.",
            "Compare {topic} with {topic}.",
        ),
        difficulty=0.6,
        chars=1400,
    ),
    Kind(
        "code",
        (
            "Write a Python class that keeps {table} in a {structure}.",
            "Find the bug in my {structure} of {table}: deleting the last raises an IndexError.",
            "Implement a {structure} of {number} {table} in C without memory leaks.",
        ),
        difficulty=1.6,
        chars=1800,
        bonus=(-0.2, 0.4, 0.2, 0.0),
    ),
    Kind(
        "query",
        (
            "Write an SQL query: rows of {table} in {place} above {number}, by month.",
            "Join {table} with {table} and count by {table}.id in SQL.",
        ),
        difficulty=0.9,
        chars=300,
        bonus=(0.0, 0.3, 0.0, 0.0),
    ),
    Kind(
        "poem",
        (
            "Write a {mood} poem about a {animal} in {place}.",
            "A {mood} haiku about a {thing}, please.",
            "Write a {mood} story about {name} and a {animal}.",
        ),
        difficulty=0.3,
        chars=900,
        bonus=(0.4, 0.0, 0.3, 0.0),
    ),
    Kind(
        "extraction",
        (
            "List the names in: {name} met {name} in {place}; {name} fed the {animal}.",
            'Return JSON with name and city: "{name} moved from {place} to {place}".',
        ),
        difficulty=-0.3,
        chars=90,
    ),
)


def demo_records() -> Iterator[LabelledPrompt]:
    """The set, always the same."""
    draw = random.Random(SEED)
    for kind in KINDS:
        prompts: set[str] = set()
        while len(prompts) < PER_KIND:
            prompt = _filled(draw.choice(kind.templates), draw)
            if prompt in prompts:
                continue
            prompts.add(prompt)
            yield _labelled(f"demo/{kind.name}/{len(prompts)}", kind, prompt, draw)


def _filled(template: str, draw: random.Random) -> str:
    for word, choices in FILL.items():
        while (hole := f"{{{word}}}") in template:
            template = template.replace(hole, draw.choice(choices), 1)
    return template


def _labelled(name: str, kind: Kind, prompt: str, draw: random.Random) -> LabelledPrompt:
    scores, chars = {}, {}
    difficulty = kind.difficulty + draw.gauss(0.0, 0.4)
    for model, skill, bonus, talk in zip(MODELS, SKILL, kind.bonus, TALK, strict=True):
        odds = 2.718281828 ** (-(skill + bonus - difficulty) / STEEPNESS)
        scores[model] = float(draw.random() < 1.0 / (1.0 + odds))
        chars[model] = max(1, round(kind.chars * talk * draw.lognormvariate(0.0, SPREAD)))
    return LabelledPrompt(
        id=name, source="demo", prompt=prompt, scores=scores, out_chars=chars, category=kind.name
    )


def main() -> None:
    """Print the set as JSON lines."""
    for record in demo_records():
        sys.stdout.write(msgspec.json.encode(record).decode() + "\n")


if __name__ == "__main__":
    main()
