# SPDX-License-Identifier: Apache-2.0
"""gpu_check: opens the CUDA device, runs the rows of rows.py, part by part, and leaves a table, a summary and a tar.
gpu_check.sh and gpu_sanitize.sh start it. Standard library only; torch_worker.py alone needs PyTorch.

Exit status: 0 every row passed, 1 a row failed or did not begin, 77 no row could run here, 2 usage error.
"""

import argparse
import hashlib
import os
import pathlib
import signal
import sys
import time

import kinds
import results
import rows
import served
from check import Check

KINDS = {"gtest": kinds.tests, "bench": kinds.bench, "tiles": kinds.measured_tiles, "sanitizer": kinds.sanitizer,
         "meetings": kinds.meetings, "served": served.run}


def parsed():
    parser = argparse.ArgumentParser(prog="gpu_check.sh")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--caller-libraries", default="", help=argparse.SUPPRESS)
    parser.add_argument("--part", default="all", choices=("all", *rows.PART_SECONDS),
                        help="the rows to run; all: every part")
    parser.add_argument("--rows", default="", help="these rows instead of a part: names separated by commas")
    parser.add_argument("--list", action="store_true",
                        help="list the rows with their part and expected seconds, and end")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu_check_results"),
                        help="folder of the results (default: gpu_check_results)")
    parser.add_argument("--cublas", default="", help="the cuBLASLt library or where to look for it, and nowhere else")
    parser.add_argument("--python", default=os.environ.get("PYTHON", sys.executable),
                        help="the Python with PyTorch (default: PYTHON, else the one that runs this)")
    parser.add_argument("--module", type=pathlib.Path, help="use this module instead of the folder's")
    parser.add_argument("--part-seconds", type=float, help="end each part after this time instead of its own")
    parser.add_argument("--rehearse", action="store_true",
                        help="run small versions of the rows on the fake module, to test these scripts")
    options = parser.parse_args()
    try:
        options.selected = rows.named(options.rows.split(",")) if options.rows else rows.of_parts(
            rows.PART_SECONDS if options.part == "all" else [options.part])
    except ValueError as error:
        parser.error(str(error))
    return options


def build_of(options):
    """A name of what is tested, so that results of another build are not taken for this one's."""
    digest = hashlib.sha256(b"rehearsal" if options.rehearse else b"")
    for file in (options.folder / "dunlin", options.module or options.folder / "libdunlin_cuda.so"):
        if file.exists():
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def list_rows(selected):
    print(f"{'row':20} {'part':9} {'expected':>8} {'limit':>6}")
    for row in selected:
        more = "  beside PyTorch" if row.peer else "  together" if row.together else ""
        print(f"{row.name:20} {row.part:9} {row.expected:6} s {row.limit:4} s{more}")
    for part in dict.fromkeys(row.part for row in selected):
        expected = rows.DEVICE.expected + rows.expected_seconds([row for row in selected if row.part == part])
        print(f"part {part}: {expected} s expected, with opening the device; stops after {rows.PART_SECONDS[part]} s")


def part_seconds(check, part):
    return check.options.part_seconds or rows.PART_SECONDS[part]


def begin(check, start, part):
    """Opens the device; whether the other rows can run."""
    facts = kinds.gpu_facts()
    for name, value in facts.items():
        check.note_machine(name, value)
    if facts.get("memory.total", "").isdigit():
        check.gpu_gib = int(facts["memory.total"]) / 1024
    if check.options.rehearse:
        check.note_machine("rehearsal", "yes")
    if check.work(rows.DEVICE, kinds.open_device, start + part_seconds(check, part)) != "pass":
        return False
    check.move_to(check.results.said()["device"])
    return True


def note_peer(check):
    """PyTorch's version in the summary, once the first row has waited for the import."""
    if check.peer is None:
        return
    value = check.peer.version or ("none: " + check.peer.reason if check.peer.reason is not None else "")
    if value and check.results.said().get("PyTorch") != value:
        check.note_machine("PyTorch", value)


def run_part(check, part, selected, start):
    """The rows of a part until its time is over: first those that run together, then one after another."""
    end = start + part_seconds(check, part)
    if together := [row for row in selected if row.together]:
        check.work_together(together, lambda row: KINDS[row.kind], end)
    for index, row in enumerate(selected):
        if row.together:
            continue
        if time.monotonic() >= end:
            check.add_verdict(row, "not begun", 0.0, f"{end - start:.0f} s of part {part} are over")
            continue
        check.work(row, KINDS[row.kind], end)
        note_peer(check)
        if row.kind == "served" and not any(later.kind == "served" for later in selected[index + 1:]):
            check.close_servers()


def run_all(check):
    start = time.monotonic()
    selected = check.options.selected
    parts = list(dict.fromkeys(row.part for row in selected))
    if not begin(check, start, parts[0]):
        return
    for part in parts:
        chosen = [row for row in selected if row.part == part]
        if any(row.kind == "sanitizer" for row in chosen):
            check.close()  # beside other processes on the GPU the sanitizer took a machine down
        elif check.peer is None:
            check.start_peer()  # the import of PyTorch passes beside the rows that run together
        run_part(check, part, chosen, start)
        start = time.monotonic()


def interrupted(check):
    """What had not ended when a signal came."""
    done = check.results.rows(this_run=True)
    for row in check.options.selected:
        if row.name not in done:
            check.add_verdict(row, "FAIL" if row.name in check.running else "not begun", 0.0, "interrupted")


def stop(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def finish(check):
    """The table on stdout, the tar, the exit status."""
    check.results.write_table()
    check.results.write_summary()
    print("\n".join([*check.results.table(this_run=True), "", *results.digest(check.results)]))
    print(f"summary: {check.out / 'summary.md'}")
    print(f"all of it: {check.results.pack()}", flush=True)
    verdicts = {name: row["verdict"] for name, row in check.results.rows(this_run=True).items() if name != "device"}
    if check.results.rows(this_run=True).get("device", {}).get("verdict") != "pass":
        return 1
    if any(verdict in ("FAIL", "not begun") for verdict in verdicts.values()):
        return 1
    return 77 if verdicts and all(verdict == "note" for verdict in verdicts.values()) else 0


def main():
    options = parsed()
    if options.list:
        list_rows(options.selected)
        return 0
    options.build = build_of(options)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    check = Check(options)
    try:
        run_all(check)
    except KeyboardInterrupt:
        interrupted(check)
    finally:
        check.close()
    return finish(check)


if __name__ == "__main__":
    sys.exit(main())
