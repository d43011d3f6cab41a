"""A load in numbers. Failed requests are counted, and nothing else of them is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from trserve.bench.client.request_record import RequestRecord
from trserve.bench.results.objectives import Objectives
from trserve.bench.results.percentiles import Distribution, distribution

_LATE_P99_S = 0.01
_LATE_MAX_S = 0.1


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests.

    planned: None where only time ends the load.
    cut_off: in flight at its end.
    begun: sent, or waiting for a slot (`--max-in-flight`) at the end.
    """

    planned: int | None
    begun: int
    sent: int
    completed: int
    failed: int
    cut_off: int
    peak_in_flight: int


@dataclass(frozen=True, slots=True)
class Failures:
    """Of one kind.

    example: the first one's message.
    """

    count: int
    example: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """Of complete responses, by direction.

    by_usage, by_chunks, unknown: how many responses were counted by the server, by their chunks, or
        not at all; tokens of the last are in no figure.
    """

    total: int
    per_s: float
    by_usage: int
    by_chunks: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Goodput:
    """Requests that met all objectives.

    share: of those that ended, failed ones included.
    """

    requests: int
    per_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Generator:
    """What the generator itself did; its lag in seconds.

    schedule: from a request's time to when it was begun; None for closed loops.
    event_loop: of a clock that ticks beside the load.
    slot_wait: that `--max-in-flight` held requests back.
    cpu_share: of one core; at 1 it cannot do more.
    """

    schedule: Distribution | None
    event_loop: Distribution | None
    slot_wait: Distribution | None
    cpu_share: float

    @property
    def is_late(self) -> bool:
        """Whether figures tell of the generator: 1 % of them by 10 ms, or one by 0.1 s."""
        return any(
            late is not None and (late.p99 > _LATE_P99_S or late.max > _LATE_MAX_S)
            for late in (self.schedule, self.event_loop)
        )


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """All of it. Latencies in seconds; each None where no request had one.

    several_choices: complete responses of more than one (n > 1).
    """

    seconds: float
    counts: Counts
    requests_per_s: float
    input: Tokens
    output: Tokens
    ttft: Distribution | None
    tpot: Distribution | None
    itl: Distribution | None
    e2e: Distribution | None
    generator: Generator
    goodput: Goodput | None
    failures: dict[str, Failures]
    several_choices: int
    finish_reasons: dict[str, int]
    statuses: dict[str, int]


@dataclass(frozen=True, slots=True)
class Observed:
    """What a load leaves behind.

    late: of its event loop.
    open_loop: whether it had a schedule.
    """

    records: Sequence[RequestRecord]
    planned: int | None
    begun: int
    sent: int
    peak_in_flight: int
    seconds: float
    cpu_seconds: float
    late: Iterable[float]
    open_loop: bool
    held_back: bool


def summarise(observed: Observed, wanted: Objectives | None) -> LoadSummary:
    """Of what was observed; `wanted` for the goodput."""
    records, seconds = observed.records, observed.seconds
    done = [record for record in records if record.failure is None]
    return LoadSummary(
        seconds=seconds,
        counts=Counts(
            planned=observed.planned,
            begun=observed.begun,
            sent=observed.sent,
            completed=len(done),
            failed=len(records) - len(done),
            cut_off=observed.sent - len(records),
            peak_in_flight=observed.peak_in_flight,
        ),
        requests_per_s=_rate(len(done), seconds),
        input=_tokens([(r.input_tokens, r.input_tokens is not None) for r in done], seconds),
        output=_tokens([(r.output_tokens, r.tokens_from == "usage") for r in done], seconds),
        ttft=_known(done, lambda record: record.ttft),
        tpot=_known(done, lambda record: record.tpot),
        itl=distribution(chain.from_iterable(record.gaps() for record in done)),
        e2e=distribution(record.e2e for record in done),
        generator=Generator(
            schedule=distribution(r.lag for r in records) if observed.open_loop else None,
            event_loop=distribution(observed.late),
            slot_wait=distribution(r.slot_wait for r in records) if observed.held_back else None,
            cpu_share=_rate(observed.cpu_seconds, seconds),
        ),
        goodput=None if wanted is None else _goodput(records, wanted, seconds),
        failures=_failures(records),
        several_choices=sum(record.several_choices for record in done),
        finish_reasons=_counted(str(record.finish_reason) for record in done),
        statuses=_counted(str(r.status) for r in records if r.status is not None),
    )


def notes(summary: LoadSummary) -> list[str]:
    """What a reader of the figures should know."""
    said, output, counts = [], summary.output, summary.counts
    if output.by_chunks:
        said.append(
            f"{output.by_chunks} responses had no usage: chunks with content count as their tokens"
        )
    if output.unknown:
        said.append(
            f"{output.unknown} responses had neither usage nor streamed content: no tokens counted"
        )
    if summary.input.unknown:
        said.append(f"{summary.input.unknown} responses had no usage: input tokens lack theirs")
    if summary.several_choices:
        said.append(
            f"{summary.several_choices} responses had several choices (n > 1): "
            "TPOT and ITL, and objectives of TPOT, leave them out"
        )
    if counts.cut_off:
        said.append(f"{counts.cut_off} requests were cut off and are in no figure")
    if waiting := counts.begun - counts.sent:
        said.append(f"{waiting} requests waited for a slot to the end and were never sent")
    if late := summary.failures.get("timeout"):
        said.append(
            f"{late.count} requests took longer than --timeout: "
            "the slowest are missing in the latencies, which look better for it"
        )
    if summary.generator.is_late:
        said.append(
            "WARNING: the generator itself was late (see its lag): latencies hold that too; "
            "use a faster machine or less load"
        )
    return said


def _rate(count: float, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _known(
    records: Iterable[RequestRecord], of: Callable[[RequestRecord], float | None]
) -> Distribution | None:
    return distribution(value for value in map(of, records) if value is not None)


def _tokens(counted: Sequence[tuple[int | None, bool]], seconds: float) -> Tokens:
    """counted: tokens of each response, and whether the server counted them."""
    total = sum(tokens or 0 for tokens, _ in counted)
    by_usage = sum(by_server for _, by_server in counted)
    unknown = sum(tokens is None for tokens, _ in counted)
    by_chunks = len(counted) - by_usage - unknown
    return Tokens(total, _rate(total, seconds), by_usage, by_chunks, unknown)


def _goodput(records: Sequence[RequestRecord], wanted: Objectives, seconds: float) -> Goodput:
    good = sum(map(wanted.met, records))
    return Goodput(good, _rate(good, seconds), good / len(records) if records else 0.0)


def _failures(records: Iterable[RequestRecord]) -> dict[str, Failures]:
    found = [record.failure for record in records if record.failure is not None]
    counts = Counter(failure.kind for failure in found)
    examples = {failure.kind: failure.message for failure in reversed(found)}
    return {kind: Failures(count, examples[kind]) for kind, count in counts.most_common()}


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())
