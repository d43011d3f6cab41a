"""Names of the compared systems and of the algorithms, in the order in which reports show them."""

from __future__ import annotations

from typing import Literal

OURS = "delayed"
LLM_ONLY = "llm-only"
SLM_ONLY = "slm-only"
OFFICIAL = "official"
STD_SERVING = "std-serving"

SYSTEMS = {
    OURS: "TokenRouter: asynchronous, delayed batching at its optimum",
    "eager": "TokenRouter, a batch starts as soon as one request waits",
    "readmit": "TokenRouter, but a returning request is treated as a new one",
    "lockstep": "TokenRouter, but all models step in turn",
    OFFICIAL: "one request after another, as the algorithms' own code does",
    STD_SERVING: "two ordinary servers; a routed request ends at one and is new at the other",
    "speculative": "llama.cpp's draft-model decoding on the same pair (nothing is routed)",
    LLM_ONLY: "the large model alone, on our server",
    SLM_ONLY: "the small model alone, on our server",
}
"""With what each of them is."""

ALGORITHMS = {
    "r2r": "R2R",
    "citer": "CITER",
    "co_llm": "Co-LLM",
    "r_stitch": "R-Stitch",
    "me": "ME",
}
"""With how they are written."""

Engine = Literal["profile", "real", "sglang"]

ENGINES: dict[Engine, str] = {
    "profile": "The profile engine",
    "real": "The real engine",
    "sglang": "The SGLang engine",
}
"""With the headings of their parts of the report."""

GAIN_STAGES = (STD_SERVING, "lockstep", "eager", OURS)
"""Each adds one of our parts to the one before it."""

MAIN_ALGORITHM = "r2r"
MAIN_WORKLOAD = "low-effort"
MAIN_CONCURRENCY = 4
"""What a figure of one setting is measured at."""


def rank(name: str) -> tuple[int, str]:
    """To sort systems, algorithms or workloads by; unknown names come last."""
    known = [*SYSTEMS, "", *ALGORITHMS, "low-effort", "high-effort", "agentic"]
    return (known.index(name) if name in known else len(known)), name
