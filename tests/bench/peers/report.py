# SPDX-License-Identifier: Apache-2.0
"""From measurements to a table: the best peer of each work, the ratio to it, and the goal. Standard library only.

A measurement is a dict: engine, part, shape, metric, precision, setting, round, and either value (a median), best (the
fastest call) and unit, or error. A ratio is how many times faster Dunlin is, whatever the unit: above 1 it wins.
Verdicts compare medians; the ratio of the fastest calls is given too, because a busy machine slows medians.
"""

import collections
import dataclasses
import statistics

import shapes

OURS = "dunlin"
LOWER_IS_BETTER = {"ms", "s", "bytes"}
WIDE = ("bf16", "fp16", "fp32")  # a peer may run BF16 weights in any of these: the best counts
GOAL_PEERS = ("torch", "llama_cpp")  # the peers the goals name; the others have their own rows
OTHER_PEERS = ("ctranslate2", "onnxruntime")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One row: our `precision` (and `setting`, when not empty) against the peers' `against`."""
    part: str
    shape: str
    metric: str
    precision: str
    against: tuple
    goal: float = 0.0  # the least ratio; 0 is none
    setting: str = ""
    peer_settings: tuple = ()  # of the peers, when not empty
    peers: tuple = GOAL_PEERS  # engines


def model_comparisons():
    rows = []
    goals = {"llama-1b": {"prefill": 1.3, "decode_b1": 1.05, "decode_b8": 1.6},
             "gpt2-124m": {"prefill": 1.5, "decode_b1": 1.1, "decode_b8": 1.6, "decode_b32": 2.0}}
    fp8_goals = {"prefill": 1.6, "decode_b1": 1.3}
    for shape, of_shape in goals.items():
        for metric in ("prefill", "decode_b1", "decode_b8", "decode_b32"):
            rows.append(Comparison("model", shape, metric, "bf16", WIDE, of_shape.get(metric, 0.0)))
            rows.append(Comparison("model", shape, metric, "fp8", ("q8_0",), fp8_goals.get(metric, 0.0)))
            rows.append(Comparison("model", shape, metric, "bf16", WIDE, peers=OTHER_PEERS))
            rows.append(Comparison("model", shape, metric, "fp16", ("fp16",)))
            rows.append(Comparison("model", shape, metric, "fp32", ("fp32",)))
    return rows + integer_comparisons() + by_name_comparisons()


def integer_comparisons():
    """Weights of 4 and 8 bits: rounded by Dunlin against files of llama.cpp, and those files themselves."""
    goals = {("int4", "q4_k_m"): {"prefill": 1.5, "decode_b1": 1.3, "decode_b8": 1.6, "decode_b32": 1.6},
             ("int4", "q4_0"): {"decode_b1": 1.15},
             ("q4_k_m", "q4_k_m"): {"prefill": 1.3, "decode_b1": 1.05},
             ("q4_0", "q4_0"): {},
             ("int8", "q8_0"): {"prefill": 1.5, "decode_b1": 1.05, "decode_b8": 1.6},
             ("q8_0", "q8_0"): {}}
    return [Comparison("model", "llama-1b", metric, ours, (theirs,), of_pair.get(metric, 0.0))
            for (ours, theirs), of_pair in goals.items()
            for metric in ("prefill", "decode_b1", "decode_b8", "decode_b32")]


def by_name_comparisons():
    """Mixtures of experts and hybrids: BF16, and one GGUF file of 4-bit types in both engines."""
    mixtures = {"prefill": 1.2, "decode_b1": 1.2}
    hybrids = {"prefill": 1.3, "decode_b1": 1.05, "decode_b8": 1.6}
    goals = {(shape, precision): mixtures for shape in shapes.MIXTURES for precision in ("bf16", "q4_k_m")}
    goals |= {(shape, "q4_k_m"): hybrids for shape in (*shapes.HYBRIDS, *shapes.NARROW)}
    return [Comparison("model", shape, metric, precision, (precision,), goals.get((shape, precision), {}).get(metric, 0.0))
            for shape in shapes.BY_NAME for precision in ("bf16", "q4_k_m")
            for metric in ("prefill", "decode_b1", "decode_b8", "decode_b32")]


def attention_comparisons(cases):
    """cases: rows of attention_cases.CASES."""
    rows = []
    for case in cases:
        for precision in ("bf16", "fp32"):
            for backend in case["ours"]:
                peer_settings = ("math",) if backend == "math" else ()
                rows.append(Comparison("attention", "-", case["name"], precision, (precision,), case["goals"][backend],
                                       backend, peer_settings))
    return rows


def block_comparisons():
    """Dunlin's fused block against PyTorch's compiled one (torch.compile, with its fused attention), and against its
    fastest of all.

    On a GPU compiling saves 26% of nanoGPT's eager block, most of it launches. A CPU has none to save: there the products
    of the eager block already run at the peak (gemm_roofline_ratio of `dunlin bench layer --case nanogpt`), so the
    block that torch.compile makes is what ours is held to.
    """
    rows = []
    for precision in ("bf16", "fp32"):
        for settings, goal in ((("compile",), 1.3), ((), 0.0)):
            rows.append(Comparison("block", "nanogpt", "block", precision, (precision,), goal, "fused", settings))
    return rows


def medians(measurements, figure="value"):
    """{(engine, part, shape, metric, precision, setting): (median of the figure over rounds, unit)}"""
    values = collections.defaultdict(list)
    units = {}
    for m in measurements:
        if figure not in m or isinstance(m[figure], str):
            continue
        key = (m["engine"], m["part"], m["shape"], m["metric"], m["precision"], m["setting"])
        values[key].append(m[figure])
        units[key] = m["unit"]
    return {key: (statistics.median(of_key), units[key]) for key, of_key in values.items()}


def speed_ratio(ours, theirs, unit):
    return theirs / ours if unit in LOWER_IS_BETTER else ours / theirs


def best(candidates):
    """The fastest of {key: (value, unit)}; None when empty."""
    if not candidates:
        return None
    unit = next(iter(candidates.values()))[1]
    pick = min if unit in LOWER_IS_BETTER else max
    return pick(candidates.items(), key=lambda item: item[1][0])


def resolve(comparison, found):
    """(ours, best peer), each (key, (value, unit)) or None."""
    ours, theirs = {}, {}
    for key, value in found.items():
        engine, part, shape, metric, precision, setting = key
        if (part, shape, metric) != (comparison.part, comparison.shape, comparison.metric):
            continue
        if engine == OURS:
            if precision == comparison.precision and comparison.setting in ("", setting):
                ours[key] = value
        elif (precision in comparison.against and (not comparison.peer_settings or setting in comparison.peer_settings)
              and engine in comparison.peers):
            theirs[key] = value
    return best(ours), best(theirs)


def verdict(ratio, goal):
    if ratio is None:
        return "not measured"
    if goal == 0.0:
        return "-"
    return "pass" if ratio >= goal else "short"


@dataclasses.dataclass(frozen=True)
class Row:
    work: str
    ours: str
    peer: str
    ratio: str
    fastest: str
    goal: str
    verdict: str


def ratio_of(comparison, found):
    ours, theirs = resolve(comparison, found)
    return speed_ratio(ours[1][0], theirs[1][0], ours[1][1]) if ours and theirs else None


def rows_of(comparisons, measurements):
    """A row for each comparison with a measurement on either side."""
    found, fastest = medians(measurements), medians(measurements, "best")
    rows = []
    for comparison in comparisons:
        ours, theirs = resolve(comparison, found)
        if ours is None and theirs is None or theirs is None and comparison.peers == OTHER_PEERS:
            continue
        ratio = ratio_of(comparison, found)
        work = " ".join(word for word in (comparison.shape, comparison.metric, comparison.precision, comparison.setting)
                        if word not in ("", "-"))
        rows.append(Row(work, described(ours, False), described(theirs, True), times(ratio),
                        times(ratio_of(comparison, fastest)), f">= {comparison.goal:g}x" if comparison.goal else "-",
                        verdict(ratio, comparison.goal)))
    return rows


def times(ratio):
    return "-" if ratio is None else f"{ratio:.2f}x"


def described(found, with_engine):
    if found is None:
        return "-"
    (engine, _, _, _, precision, setting), (value, unit) = found
    text = f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    if not with_engine:
        return f"{text} {unit}"
    return f"{text} {unit}, " + " ".join(word for word in (engine, precision, setting) if word)


def table(rows):
    """A Markdown table with aligned columns."""
    lines = [("work", "Dunlin", "best peer", "ratio", "of fastest", "goal", "")]
    lines += [dataclasses.astuple(row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def agreement(ours, theirs):
    """The length of the common prefix."""
    count = 0
    for a, b in zip(ours, theirs):
        if a != b:
            break
        count += 1
    return count


def memory_lines(measurements):
    """Peak resident memory of each engine in part `model`, over all batches, in the setting that needs least."""
    peaks = {}
    for m in measurements:
        if m["part"] == "model" and m.get("metric") == "rss" and "value" in m:
            settings = peaks.setdefault((m["shape"], m["engine"], m["precision"]), {})
            settings[m["setting"]] = max(m["value"], settings.get(m["setting"], 0))
    return [f"RSS {shape} {engine} {precision}: {min(settings.values()) / 1e6:.0f} MB"
            for (shape, engine, precision), settings in sorted(peaks.items())]


def agreement_lines(measurements):
    """How many leading greedy tokens of each peer equal Dunlin's, on the same weights and prompt, in the nearest precision."""
    ours, seen, text = {}, set(), []
    for m in measurements:
        if m.get("engine") == OURS and m.get("metric") == "tokens" and "tokens" in m:
            ours[m["shape"], m["precision"]] = m["tokens"]
    for m in measurements:
        if m.get("engine") == OURS or m.get("metric") != "decode_b1" or "tokens" not in m:
            continue
        nearest = {"q8_0": "fp8"}.get(m["precision"], m["precision"])
        key = (m["shape"], m["engine"], m["precision"], m["setting"])
        if key in seen or (m["shape"], nearest) not in ours:
            continue
        seen.add(key)
        mine = ours[m["shape"], nearest]
        text.append(f"greedy tokens, {' '.join(word for word in key if word)}: the first {agreement(mine, m['tokens'])} "
                    f"of {min(len(mine), len(m['tokens']))} are those of Dunlin in {nearest}")
    return text
