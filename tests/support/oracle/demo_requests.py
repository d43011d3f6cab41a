"""Requests for the demo pair: greedy and sampled, short and long, several scripts."""

from __future__ import annotations

import random

from trsched.models.vocabulary import Vocabulary
from trsched.request import GenerateRequest, SamplingParams

QUESTIONS = [
    "What is the capital of France?",
    "Write a short poem about the sea.",
    "List three uses of a hammer.",
    "What is 12 plus 30?",
    "Give me a Python function that reverses a list.",
    "Sag mir bitte: wie spät ist es?",
    "Name five fruits 🍎.",
    "Why is the sky blue?",
]
GREEDY = SamplingParams(temperature=0.0)
SAMPLED = [
    SamplingParams(temperature=0.8),
    SamplingParams(temperature=1.0, top_p=0.9),
    SamplingParams(temperature=0.7, top_k=40),
    SamplingParams(temperature=1.3, top_p=0.95, top_k=100),
]


def make_requests(vocabulary: Vocabulary, count: int, seed: int) -> list[GenerateRequest]:
    """Greedy and seeded sampling, mixed prompts and lengths."""
    rng = random.Random(seed)
    requests = []
    for i in range(count):
        question = QUESTIONS[(i + seed) % len(QUESTIONS)]
        text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        base = GREEDY if i % 2 else SAMPLED[(i // 2) % len(SAMPLED)]
        sampling = SamplingParams(base.temperature, base.top_p, base.top_k, rng.getrandbits(64))
        requests.append(
            GenerateRequest(
                request_id=str(i),
                prompt_ids=vocabulary.encode(text, special=True),
                max_tokens=rng.randrange(8, 25),
                sampling=sampling,
                stop_token_ids=vocabulary.stop_ids,
            )
        )
    return requests
