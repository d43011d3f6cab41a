"""Query-level balancing between language-model instances: labelled prompts, so far."""

from importlib.metadata import version

from rbalance.records import (
    LabelledPrompt,
    ModelSummary,
    RecordError,
    Summary,
    read_records,
    summarise,
)

__version__ = version("rbalance")

__all__ = [
    "LabelledPrompt",
    "ModelSummary",
    "RecordError",
    "Summary",
    "__version__",
    "read_records",
    "summarise",
]
