# SPDX-License-Identifier: Apache-2.0
"""Our records beside PyTorch's answers. Pure functions; standard library only.

An answer of PyTorch has a `setting` (which of its ways), a `key` (fields of the records of ours that did the same work)
and `median_us`, or `error`.
"""

OF_MANY_SHAPES = ("gemm", "paged_attention", "experts")  # operations whose cases have several
LABELS = ("case", "layer", "fp8_recipe", "execution", "backend", "phase", "batch", "precision")


def label(record):
    """What tells a record apart from the others of its row."""
    words = [f"batch {record[name]}" if name == "batch" else str(record[name]) for name in LABELS if record.get(name)]
    if record.get("op") in OF_MANY_SHAPES:
        words.append("x".join(map(str, record["shape"])))
    if record.get("softcap"):
        words.append(f"cap {record['softcap']:g}")
    if record.get("alibi"):
        words.append("ALiBi")
    if record.get("selected"):
        words.append(f"{record['selected']} keys chosen")
    return " ".join(words)


def beside(record, answers):
    """{setting: microseconds} of the answers that match the record."""
    return {answer["setting"]: answer["median_us"] for answer in answers
            if "median_us" in answer and all(record.get(name) == value for name, value in answer["key"].items())}


def compare(records, answers):
    """A dictionary for each record of ours: label, us, roof ratio, and PyTorch's time over ours, at its best and by
    setting (above 1: ours is faster)."""
    lines = []
    for record in records:
        theirs = beside(record, answers)
        best = min(theirs, key=theirs.get, default=None)
        lines.append({"label": label(record), "us": record["median_us"], "roof": record["roof"],
                      "of_roof": record["roofline_ratio"], "best": best, "best_us": theirs.get(best),
                      "ratio": theirs[best] / record["median_us"] if best else None,
                      "ratios": {name: us / record["median_us"] for name, us in theirs.items()},
                      "deterministic_cost": record.get("deterministic_cost"),
                      "workspace_bytes": record["workspace_bytes"], "resident_bytes": record["resident_bytes"]})
    return lines


def refused(answers):
    """Why settings of PyTorch have no time."""
    return [f"{answer['setting']}: {answer['error']}" for answer in answers if "error" in answer]


def told(line):
    """A comparison in a few words."""
    text = f"{line['label']} {line['us']:g} us, {line['of_roof']:.2f} of roof"
    if line["ratio"]:
        text += f", PyTorch/ours {line['ratio']:.2f} ({line['best']})"
    return text


def ranges(lines):
    """The lowest and highest ratios of a row, as text."""
    def between(name, values):
        return [f"{name} {min(values):.2f} to {max(values):.2f}"] if values else []

    return [*between("of roof", [line["of_roof"] for line in lines]),
            *between("PyTorch/ours", [line["ratio"] for line in lines if line["ratio"]])]


def slower_than_flash(records, limit=2.0):
    """EFFICIENT's records that take more than `limit` times as long as FLASH's of the same work, as text."""
    flash = {label({**record, "backend": "flash"}): record["median_us"] for record in records
             if record.get("backend") == "flash"}
    times = {label(record): record["median_us"] / flash[label({**record, "backend": "flash"})] for record in records
             if record.get("backend") == "efficient" and label({**record, "backend": "flash"}) in flash}
    missed = [f"{name} {ratio:.2f}" for name, ratio in times.items() if ratio > limit]
    return [f"over {limit:g} times FLASH's time: " + ", ".join(missed)] if missed else []


def under(lines, goal):
    """The records that do not reach the row's goal, as text."""
    missed = [f"{line['label']} {line['of_roof']:.2f}" for line in lines if line["of_roof"] < goal]
    return [f"under the goal of {goal:.2f} of roof: " + ", ".join(missed)] if missed else []
