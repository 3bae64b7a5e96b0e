# SPDX-License-Identifier: Apache-2.0
"""The machine of a measurement, and how fast a file is read from disk. Standard library only."""

import datetime
import os
import re
import subprocess
import sys
import time


# As tools/bench/processor_name.cc has them (machine_test.py compares): implementer and part of a core, its name.
ARM_CORES = {
    ("0x41", "0xd08"): "Cortex-A72", ("0x41", "0xd0c"): "Neoverse N1", ("0x41", "0xd40"): "Neoverse V1",
    ("0x41", "0xd49"): "Neoverse N2", ("0x41", "0xd4f"): "Neoverse V2", ("0x41", "0xd84"): "Neoverse V3",
    ("0x41", "0xd8e"): "Neoverse N3", ("0xc0", "0xac3"): "Ampere-1", ("0xc0", "0xac4"): "Ampere-1A",
}

# Of "flags" on x86-64 and of "Features" on aarch64.
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "asimddp", "i8mm", "bf16", "sve", "sve2")


def processor_name(cpuinfo):
    """Of the text of /proc/cpuinfo: the first model name, or the names of ARM's cores, as `dunlin bench` names them."""
    name = re.search(r"^model name\s*: (.*)", cpuinfo, re.MULTILINE)
    if name:
        return name.group(1)
    parts = re.findall(r"^CPU implementer\s*: (\S+)$.*?^CPU part\s*: (\S+)$", cpuinfo, re.MULTILINE | re.DOTALL)
    cores = [ARM_CORES.get(part, "ARM implementer {} part {}".format(*part)) for part in parts]
    return " and ".join(dict.fromkeys(cores)) or "unknown processor"


def instructions(cpuinfo):
    """Those of INSTRUCTIONS that the first processor in /proc/cpuinfo has."""
    flags = re.search(r"^(?:flags|Features)\s*: (.*)", cpuinfo, re.MULTILINE)
    return [name for name in INSTRUCTIONS if flags and name in flags.group(1).split()]


def facts(binary):
    with open("/proc/cpuinfo", encoding="utf-8") as stream:
        cpuinfo = stream.read()
    version = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=20, check=False)
    return {"processor": processor_name(cpuinfo), "cpus": len(os.sched_getaffinity(0)),
            "instructions": instructions(cpuinfo), "dunlin": version.stdout.strip(),
            "date": datetime.date.today().isoformat()}


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
