# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind: results.jsonl, appended and flushed line by line; table.txt, written anew after each row;
summary.md; and all of it with the logs as one tar. Standard library only.

A folder may collect several runs of one build, part after part: the summary takes each row's latest.
"""

import json
import os
import tarfile
import time

import ratios


class Results:
    def __init__(self, folder, build):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.file = folder / "results.jsonl"
        self.run = f"{time.time():.0f}-{os.getpid()}"
        self.build = build
        self.lines = self.earlier()
        cut_off = self.file.exists() and self.file.stat().st_size > 0 and not self.file.read_bytes().endswith(b"\n")
        self.stream = open(self.file, "a", encoding="utf-8")
        if cut_off:
            self.stream.write("\n")

    def earlier(self):
        """The lines of earlier runs of the same build; a line that was cut off is dropped."""
        lines = []
        for text in self.file.read_text().splitlines() if self.file.exists() else ():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if line.get("build") == self.build:
                lines.append(line)
        return lines

    def add(self, kind, row="", **fields):
        line = {"kind": kind, "run": self.run, "build": self.build, "row": row, **fields}
        self.lines.append(line)
        self.stream.write(json.dumps(line) + "\n")
        self.stream.flush()

    def rows(self, this_run=False):
        """{name: its latest verdict}, in the order of the first one."""
        return {line["row"]: line for line in self.lines
                if line["kind"] == "row" and (not this_run or line["run"] == self.run)}

    def of(self, verdict, kind):
        """The lines of a kind that belong to a verdict."""
        return [line for line in self.lines
                if line["kind"] == kind and line["row"] == verdict["row"] and line["run"] == verdict["run"]]

    def said(self):
        """The latest word on the machine, by name."""
        return {line["name"]: line["value"] for line in self.lines if line["kind"] == "machine"}

    def table(self, this_run=False):
        return [self.said().get("device", "no device"), *map(table_line, self.rows(this_run).values())]

    def write_table(self):
        (self.folder / "table.txt").write_text("\n".join(self.table()) + "\n")

    def write_summary(self):
        (self.folder / "summary.md").write_text("\n".join(summary(self)) + "\n")

    def pack(self):
        """The folder as a tar beside it."""
        self.stream.flush()
        file = self.folder.with_name(self.folder.name + ".tar.gz")
        with tarfile.open(file, "w:gz") as archive:
            archive.add(self.folder, arcname=self.folder.name)
        return file


def table_line(row):
    return f"{row['row']:20} {row['verdict']:9} {row['seconds']:6.1f} s  {row['result']}"


def digest(results):
    """What a report quotes: the machine, counts, failures and a line for each measurement, without logs."""
    said, rows = results.said(), results.rows()
    machine = ", ".join(f"{name} {said[name]}" for name in ("driver_version", "cuBLASLt", "PyTorch") if name in said)
    passed = [row["row"] for row in rows.values() if row["verdict"] == "pass"]
    text = [f"### {said.get('device', 'no device')}", "", f"{machine}; build {results.build}", "",
            f"{len(passed)} of {len(rows)} rows passed.", ""]
    text += [f"- {row['row']} {row['verdict']}: {cell(row['result'])}" for row in rows.values()
             if row["verdict"] != "pass"]
    lines = [line for row in rows.values()
             for line in ratios.compare(results.of(row, "record"), results.of(row, "peer"))]
    if lines:
        text += ["", "| case | ours, us | of roof | PyTorch's best, us | ratio |", "|---|---:|---:|---:|---:|"]
    for line in lines:
        best = f"{line['best_us']:.5g} ({line['best']})" if line["best"] else "-"
        ratio = f"{line['ratio']:.2f}" if line["ratio"] else "-"
        text.append(f"| {line['label']} | {line['us']:.5g} | {line['of_roof']:.2f} | {best} | {ratio} |")
    return text


def summary(results):
    said, rows = results.said(), results.rows()
    counts = {name: sum(row["verdict"] == name for row in rows.values())
              for name in ("pass", "FAIL", "note", "not begun")}
    text = ["# CUDA device: " + said.get("device", "no device"), "",
            ", ".join(f"{count} {name}" for name, count in counts.items()), ""]
    if said.get("rehearsal"):
        text += ["**A rehearsal on the fake module: the scripts work. Its times say nothing about a GPU.**", ""]
    text += [f"- {name}: {value}" for name, value in said.items() if name not in ("device", "rehearsal")]
    text += ["", "## Verdicts", "", "| row | verdict | seconds | result |", "|---|---|---|---|"]
    text += [f"| {row['row']} | {row['verdict']} | {row['seconds']:.1f} | {cell(row['result'])} |"
             for row in rows.values()]
    text += ["", *times(results, rows), *memory(results, rows), *failures(results, rows)]
    return text


def cell(text):
    shortened = text if len(text) <= 240 else text[:237] + "..."
    return shortened.replace("|", "\\|").replace("\n", " ")


def times(results, rows):
    text = ["## Times", "",
            "PyTorch's time over ours: above 1, ours is faster. Roof: the measured limit of this machine.", "",
            "| row | case | ours, us | of roof | PyTorch's best | PyTorch/ours | by setting |",
            "|---|---|---|---|---|---|---|"]
    for row in rows.values():
        for line in ratios.compare(results.of(row, "record"), results.of(row, "peer")):
            best = f"{line['best']}, {line['best_us']:.5g} us" if line["best"] else "-"
            ratio = f"{line['ratio']:.2f}" if line["ratio"] else "-"
            settings = ", ".join(f"{name} {value:.2f}" for name, value in line["ratios"].items()) or "-"
            text.append(f"| {row['row']} | {line['label']} | {line['us']:g} | "
                        f"{line['of_roof']:.3f} of {line['roof']} | {best} | {ratio} | {settings} |")
    refused = dict.fromkeys(f"- {row['row']}: {cell(reason)}" for row in rows.values()
                            for reason in ratios.refused(results.of(row, "peer")))
    return text + (["", "PyTorch did not run:", "", *refused] if refused else []) + [""]


def memory(results, rows):
    """Of the row of table 2, whose subject it is."""
    row = rows.get("table_2")
    if row is None:
        return []
    mib = 1 << 20
    text = ["## Memory of table 2, MiB", "", "| implementation | during the call | held |", "|---|---|---|"]
    sides = [(f"ours, {line['backend']}", line) for line in results.of(row, "record")]
    sides += [(f"PyTorch, {line['setting']}", line) for line in results.of(row, "peer") if "workspace_bytes" in line]
    text += [f"| {name} | {line['workspace_bytes'] / mib:.1f} | {line['resident_bytes'] / mib:.1f} |"
             for name, line in sides]
    return text + [""]


def failures(results, rows):
    text = ["## Failures", ""]
    for row in rows.values():
        if row["verdict"] not in ("FAIL", "not begun"):
            continue
        text += [f"### {row['row']}", "", row["result"], ""]
        for name in row.get("logs", ()):
            lines = (results.folder / name).read_text(errors="replace").splitlines()[-25:]
            text += [f"End of `{name}`:", "", "```", *(line[:400] for line in lines), "```", ""]
    return text if len(text) > 2 else [*text, "None.", ""]
