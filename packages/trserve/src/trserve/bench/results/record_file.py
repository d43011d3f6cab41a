"""The raw records of a load, one JSON object on each line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from trserve.bench.client.request_record import RequestRecord


def record_lines(records: Iterable[RequestRecord]) -> bytes:
    """In the order in which they were begun. Times in seconds from the start of the load."""
    ordered = sorted(records, key=lambda record: record.number)
    return b"".join(msgspec.json.encode(_line(record)) + b"\n" for record in ordered)


def _line(record: RequestRecord) -> dict[str, Any]:
    failure = record.failure
    return {
        "number": record.number,
        "scheduled": record.scheduled,
        "begun": record.begun,
        "sent": record.sent,
        "ended": record.ended,
        "ttft": record.ttft,
        "tpot": record.tpot,
        "e2e": record.e2e,
        "itl": list(record.gaps()),
        "input_tokens": record.input_tokens,
        "output_tokens": record.output_tokens,
        "tokens_from": record.tokens_from,
        "status": record.status,
        "finish_reason": record.finish_reason,
        "failure": None if failure is None else {"kind": failure.kind, "message": failure.message},
    }
