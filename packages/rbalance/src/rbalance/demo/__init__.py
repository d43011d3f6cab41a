"""A small labelled set, made up: for tests, examples and a first look.

400 prompts of ten kinds, with scores and answer lengths of four imaginary models that get better,
slower and more talkative with their size. No model wrote any of it: labels are draws from the
process in rbalance.demo.generate, so figures computed from them say nothing about real models.
"""

from pathlib import Path

DEMO_PROMPTS = Path(__file__).with_name("prompts.jsonl")
"""A file of labelled prompts, for rbalance.read_records."""
