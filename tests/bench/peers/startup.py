# SPDX-License-Identifier: Apache-2.0
"""Time to READY and resident memory of a Dunlin server, and whether its outputs match those of the peers.

Standard library only.
"""

import dataclasses
import pathlib
import statistics

import dunlin_bench
import dunlin_server
import engines
import machine
import report

READY_DEMO_SECONDS = 1.0
OVER_READING = {"dd": 1.3, "memory": 1.5}  # how the file is read -> READY's limit over that
CACHED_FILE = "Q4_K_M"  # served with its own codes from the page cache
MEMORY_SLACK = 150 * 10**6
TOKENS = 16
PRECISIONS = ("bf16", "fp16", "fp32", "fp8")


def measure_tokens(run, options, shape):
    """Greedy continuations of the peers' prompt, in each precision."""
    directory = options.work / shape / "hf"
    for precision in PRECISIONS if directory.exists() else ():
        words = {"engine": report.OURS, "part": "model", "shape": shape, "precision": precision, "setting": "serve",
                 "metric": "tokens"}
        try:
            with dunlin_server.Server(options.binary, directory, [precision], options.work, options.threads) as server:
                run.keep(**words, tokens=server.greedy(engines.prompt(shape), TOKENS, precision))
        except (OSError, RuntimeError, ValueError, KeyError, dunlin_server.subprocess.SubprocessError) as error:
            run.keep(**words, error=str(error))


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    path: pathlib.Path  # served
    precision: str = "bf16"
    file: pathlib.Path | None = None  # of the weights, read for the limit
    reading: str = "dd"  # from the disk; "memory": from the page cache into new memory


def cases(options, demo, shapes):
    yield Case("demo", demo)
    for shape in shapes:
        directory, file = options.work / shape / "hf", options.work / shape / f"{CACHED_FILE}.gguf"
        yield Case(shape, directory, file=directory / "model.safetensors")
        if file.exists():  # llama.cpp makes it
            yield Case(f"{shape} {CACHED_FILE}", file, dunlin_bench.FILE_PRECISIONS[CACHED_FILE], file, "memory")


def ready_once(options, case):
    if case.file:
        machine.cache(case.file) if case.reading == "memory" else machine.evict(case.file)
    with dunlin_server.Server(options.binary, case.path, [case.precision], options.work, options.threads) as server:
        return server.ready_seconds, server.resident_bytes(), server.planned_bytes()


def measure(run, options, demo, shapes):
    """READY of the demo model, of each shape with its file evicted, and of its GGUF file in the page cache; alternating
    with reading the file."""
    for case in cases(options, demo, shapes):
        for round_index in range(run.args.rounds):
            row = {"engine": report.OURS, "part": "startup", "precision": case.precision, "shape": case.name,
                   "round": round_index}
            try:
                if case.file:
                    read = machine.memory_seconds if case.reading == "memory" else machine.dd_seconds
                    run.keep(**row, setting=case.reading, metric="dd", value=read(case.file), unit="s")
                ready, resident, planned = ready_once(options, case)
            except (OSError, RuntimeError, dunlin_server.subprocess.SubprocessError) as error:
                run.keep(**row, metric="ready", setting="", error=str(error))
                break
            run.keep(**row, setting="", metric="ready", value=ready, unit="s")
            run.keep(**row, setting="serve", metric="rss", value=resident, unit="bytes", planned=planned)


@dataclasses.dataclass(frozen=True)
class Start:
    """READY and memory of one shape: medians over rounds, the largest resident size, and their limits."""
    shape: str
    ready: float  # seconds
    ready_limit: float
    limit_source: str
    resident: float  # bytes
    planned: float

    def ready_verdict(self):
        return "pass" if self.ready <= self.ready_limit else "short"

    def memory_verdict(self):
        return "pass" if self.resident <= self.planned else "short"


def starts(measurements):
    """A Start for each shape measured."""
    measured = [m for m in measurements if m["part"] == "startup" and "value" in m]

    def values(shape, metric):
        return [m["value"] for m in measured if m["shape"] == shape and m["metric"] == metric]

    found = []
    for shape in dict.fromkeys(m["shape"] for m in measured):
        limit, source = READY_DEMO_SECONDS, "fixed"
        if reads := [m for m in measured if m["shape"] == shape and m["metric"] == "dd"]:
            over = OVER_READING[reads[0]["setting"]]
            limit, source = over * statistics.median(m["value"] for m in reads), f"{over}x {reads[0]['setting']}"
        plan = next(m["planned"] for m in measured if m["shape"] == shape and m["metric"] == "rss")
        found.append(Start(shape, statistics.median(values(shape, "ready")), limit, source, max(values(shape, "rss")),
                           sum(plan.values()) + MEMORY_SLACK))
    return found


def lines(measurements):
    """The time and memory of each start and their limits, as text."""
    text = []
    for start in starts(measurements):
        text.append(f"READY {start.shape}: {start.ready:.2f} s, limit {start.ready_limit:.2f} s ({start.limit_source}): "
                    f"{start.ready_verdict()}")
        text.append(f"RSS {start.shape}: {start.resident / 1e6:.0f} MB, limit {start.planned / 1e6:.0f} MB (weights, KV pool "
                    f"and workspace as planned, and {MEMORY_SLACK // 10**6} MB): {start.memory_verdict()}")
    return text


def rows(measurements):
    """The same as cells of a table."""
    return [[start.shape, f"{start.ready:.2f} s", f"{start.ready_limit:.2f} s", f"{start.resident / 1e6:.0f} MB",
             f"{start.planned / 1e6:.0f} MB", "pass" if start.ready_verdict() == start.memory_verdict() == "pass" else "short"]
            for start in starts(measurements)]
