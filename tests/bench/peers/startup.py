"""Time to READY and resident memory of a Dunlin server, and whether it computes what the peers compute.

Standard library only.
"""

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
    """Greedy continuations of the peers' own prompt, per precision."""
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
    """READY of the demo model; of each shape, its file evicted, beside dd of the file, taken in turn."""
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


def lines(measurements):
    """One sentence a shape: what the start took, what it may take."""
    rows = [m for m in measurements if m["part"] == "startup" and "value" in m]

    def values(shape, metric):
        return [m["value"] for m in rows if m["shape"] == shape and m["metric"] == metric]

    text = []
    for shape in dict.fromkeys(m["shape"] for m in rows):
        ready, limit, source = statistics.median(values(shape, "ready")), READY_DEMO_SECONDS, "fixed"
        if reads := values(shape, "dd"):
            limit, source = READY_OVER_DD * statistics.median(reads), f"{READY_OVER_DD}x dd of the evicted file"
        text.append(f"READY {shape}: {ready:.2f} s, limit {limit:.2f} s ({source}): "
                    f"{'pass' if ready <= limit else 'short'}")
        memory = [m for m in rows if m["shape"] == shape and m["metric"] == "rss"]
        planned = sum(memory[0]["planned"].values()) + MEMORY_SLACK
        worst = max(m["value"] for m in memory)
        text.append(f"RSS {shape}: {worst / 1e6:.0f} MB, limit {planned / 1e6:.0f} MB (weights, KV pool and workspace "
                    f"as planned, and {MEMORY_SLACK // 10**6} MB): {'pass' if worst <= planned else 'short'}")
    return text
