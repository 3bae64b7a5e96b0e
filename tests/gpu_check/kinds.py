# SPDX-License-Identifier: Apache-2.0
"""What each kind of row does: opens the device, runs a test program, measures a bench beside PyTorch, runs a test
program under compute-sanitizer. Each returns what the table says, or raises Failure or Note. Standard library only."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

import cublas
import ratios
import tiles
from peer import Broken, Missing
from processes import Failure, Note, failure_in, read

GPU_FIELDS = ("name", "driver_version", "memory.total", "memory.used", "compute_mode", "power.limit", "clocks.max.sm",
              "temperature.gpu")


def gpu_facts():
    """What nvidia-smi says of the first GPU; empty without it."""
    command = ["nvidia-smi", "-i", "0", "--query-gpu=" + ",".join(GPU_FIELDS), "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(GPU_FIELDS, (word.strip() for word in done.stdout.split("\n")[0].split(","))))


def records_of(text):
    records = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if not records or "median_us" not in records[0]:
        raise Failure("no record")
    return records


def open_device(check, row):
    """Tries the cuBLASLt libraries in turn. Failure with every reason when none opens the device."""
    reasons = []
    for line, setting in cublas.choices(check.options.python, check.options.cublas):
        check.note_machine("cuBLASLt", line)
        try:
            text = check.run(check.bench_command(check.arguments(row)[0], setting), "device.log", "device.jsonl")
        except Failure as error:
            said = re.search("device cuda cannot be opened: .*$", read(check.out / "device.log"), re.M)
            reasons.append(said[0] if said else str(error))
            continue
        check.cublas = setting
        if setting:
            check.environment["DUNLIN_TEST_CUBLAS"] = setting
        check.note_machine("device", records_of(text)[0]["machine"])
        return check.results.said()["device"]
    raise Failure("; ".join(dict.fromkeys(reasons)) or failure_in(read(check.out / "device.log")))


def tests(check, row):
    program, pattern = check.arguments(row)
    command = [check.folder / "tests" / program, f"--gtest_filter={pattern}"]
    index, count = (0, 1) if check.options.rehearse else row.shard
    share = {"GTEST_SHARD_INDEX": str(index), "GTEST_TOTAL_SHARDS": str(count)}
    return passed(check.run(command, row.name + ".log", more=share), pattern)


def passed(text, pattern):
    counts = {word: int(found[1]) if (found := re.search(rf"\[  {word} *\] (\d+) test", text)) else 0
              for word in ("PASSED", "SKIPPED")}
    if counts["PASSED"] == 0:
        raise Failure(f"no test ran of {pattern}: {failure_in(text)}")
    return f"{counts['PASSED']} passed, {counts['SKIPPED']} not taken by the device"


def meetings(check, row):
    """What ranks of a divided model take to meet; a note where there are not two GPUs."""
    program, pattern = check.arguments(row)
    text = check.run([check.folder / "tests" / program, f"--gtest_filter={pattern}"], row.name + ".log")
    if reason := re.search("one CUDA device: .*$", text, re.M):
        raise Note(reason[0])
    lines = re.findall("^meeting of 2 devices.*$", text, re.M)
    for line in lines:
        print("    " + line, file=sys.stderr, flush=True)
    return "; ".join([passed(text, pattern), *lines])


def bench(check, row):
    if row.gib and 0 < check.gpu_gib < row.gib:
        raise Note(f"not measured: needs {row.gib} GiB of GPU memory, there are {check.gpu_gib:.0f}")
    try:
        check.peer.ready()  # its import would disturb what we measure
    except Missing:
        pass
    text = check.run(check.bench_command(check.arguments(row)[0]), row.name + ".log", row.name + ".jsonl")
    records = records_of(text)
    for record in records:
        check.results.add("record", row.name, **record)
    answers, note = ask_peer(check, row)
    lines = ratios.compare(records, answers)
    for line in lines:
        print("    " + ratios.told(line), file=sys.stderr, flush=True)
    missed = [] if check.options.rehearse else ratios.under(lines, row.goal) + ratios.slower_than_flash(records)
    return "; ".join([f"{len(records)} records within their error bounds", *ratios.ranges(lines), *missed, *note])


def measured_tiles(check, row):
    """A bench that leaves the file of its arguments, and the tile shapes in it as text beside it."""
    said = bench(check, row)
    text = read(check.out / "tiles")
    lines = tiles.told(text)
    (check.out / "tiles.txt").write_text("".join(line + "\n" for line in lines))
    for line in lines:
        print("    " + line, file=sys.stderr, flush=True)
    if not lines and "sm_90" in check.results.said().get("device", "") and not check.options.rehearse:
        raise Failure("no tile shape was measured")
    return f"{said}; {len(tiles.choices(text))} choices in tiles.txt"


def ask_peer(check, row):
    """PyTorch's answers for a row, and what to say if it has none."""
    job = row.small_peer if check.options.rehearse else row.peer
    answers = []
    if job is None:
        return answers, []
    try:
        for answer in check.peer.ask(job, check.seconds_left()):
            check.results.add("peer", row.name, **answer)
            answers.append(answer)
    except Missing as error:
        return answers, [f"no PyTorch: {error}"]
    except Broken as error:
        return answers, [f"PyTorch: {error}"]
    return answers, []


def sanitizer_program(check):
    """compute-sanitizer on PATH, of a toolkit, or of the wheel nvidia-cuda-sanitizer-api; a stand-in in a rehearsal."""
    if check.options.rehearse:
        return str(check.here / "stand_in_sanitizer.sh")
    places = ["/usr/local/cuda/bin/compute-sanitizer", "/usr/local/cuda/compute-sanitizer/compute-sanitizer"]
    for folder in cublas.answer(check.options.python, cublas.PACKAGES) or []:
        places += sorted(glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "bin", "compute-sanitizer")))
    found = shutil.which("compute-sanitizer") or next((place for place in places if os.access(place, os.X_OK)), None)
    if found is None:
        raise Note("no compute-sanitizer: not on PATH, in /usr/local/cuda or in site-packages")
    return found


def sanitizer(check, row):
    """The operations, then attention. Only kernels whose mangled name contains ours are checked: cuBLASLt's would take
    hours."""
    tool, *patterns = check.arguments(row)
    program, told = sanitizer_program(check), []
    for name, pattern in zip(("kernels_device_ops_test", "kernels_device_attention_test"), patterns):
        log = f"{row.name}.{'attention' if 'attention' in name else 'operations'}.log"
        text = check.run([program, "--tool", tool, "--kernel-name", "kns=dunlin", "--error-exitcode", "1",
                          "--print-limit", "20", check.folder / "tests" / name, f"--gtest_filter={pattern}"], log)
        if not re.search(r"ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: .*\(0 errors", text):
            raise Failure(f"{log}: no summary without errors: {failure_in(text)}")
        told.append(f"{name}: {passed(text, pattern)}")
    return "clean; " + "; ".join(told)
