# SPDX-License-Identifier: Apache-2.0
"""Time to READY and resident memory of a Dunlin server, and whether its outputs match those of the peers.

Standard library only.
"""

import dataclasses
import statistics

import dunlin_server
import engines
import machine
import report

READY_DEMO_SECONDS = 1.0
READY_OVER_DD = 1.3
MEMORY_SLACK = 150 * 10**6
TOKENS = 16
PRECISIONS = ("bf16", "fp16", "fp32", "fp8")


def measure_tokens(run, options, shape):
    """Greedy continuations of the peers' prompt, in each precision."""
    directory = options.work / shape / "hf"
    for precision in PRECISIONS:
        words = {"engine": report.OURS, "part": "model", "shape": shape, "precision": precision, "setting": "serve",
                 "metric": "tokens"}
        try:
            with dunlin_server.Server(options.binary, directory, [precision], options.work, options.threads) as server:
                run.keep(**words, tokens=server.greedy(engines.prompt(shape), TOKENS, precision))
        except (OSError, RuntimeError, ValueError, KeyError, dunlin_server.subprocess.SubprocessError) as error:
            run.keep(**words, error=str(error))


def ready_once(options, directory, cold_file):
    if cold_file:
        machine.evict(cold_file)
    with dunlin_server.Server(options.binary, directory, ["bf16"], options.work, options.threads) as server:
        return server.ready_seconds, server.resident_bytes(), server.planned_bytes()


def measure(run, options, demo, shapes):
    """READY of the demo model; and of each shape with its file evicted, alternating with dd of the file."""
    words = {"engine": report.OURS, "part": "startup", "precision": "bf16"}
    cases = [("demo", demo, None)]
    cases += [(shape, options.work / shape / "hf", options.work / shape / "hf" / "model.safetensors") for shape in shapes]
    for name, directory, file in cases:
        for round_index in range(run.args.rounds):
            row = {**words, "shape": name, "round": round_index}
            try:
                if file:
                    run.keep(**row, setting="dd", metric="dd", value=machine.dd_seconds(file), unit="s")
                ready, resident, planned = ready_once(options, directory, file)
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
        if reads := values(shape, "dd"):
            limit, source = READY_OVER_DD * statistics.median(reads), f"{READY_OVER_DD}x dd of the evicted file"
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
