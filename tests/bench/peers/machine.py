# SPDX-License-Identifier: Apache-2.0
"""The machine of a measurement, and how fast a file is read from disk. Standard library only."""

import datetime
import os
import re
import subprocess
import sys
import time


def facts(binary):
    info = open("/proc/cpuinfo", encoding="utf-8").read()
    name = re.search(r"model name\s*: (.*)", info)
    flags = re.search(r"^flags\s*: (.*)", info, re.MULTILINE)
    known = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
    version = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=20, check=False)
    return {"processor": name.group(1) if name else "unknown", "cpus": len(os.sched_getaffinity(0)),
            "instructions": [flag for flag in known if flags and flag in flags.group(1).split()],
            "dunlin": version.stdout.strip(), "date": datetime.date.today().isoformat()}


def evict(path):
    """Tells the kernel to drop a file from the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def cache(path):
    """Puts a file into the page cache."""
    with open(path, "rb") as stream:
        while stream.read(1 << 22):
            pass


def memory_seconds(path):
    """The time a new process takes to read the file from the page cache into memory, which it touches for the first time."""
    cache(path)
    code = "import sys, time; t = time.perf_counter(); open(sys.argv[1], 'rb').read(); print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True, timeout=300)
    return float(done.stdout)


def dd_seconds(path):
    """The time `dd` takes to read the file once, evicted first."""
    evict(path)
    start = time.perf_counter()
    subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=4M"], check=True, capture_output=True, timeout=300)
    return time.perf_counter() - start
