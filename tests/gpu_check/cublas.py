# SPDX-License-Identifier: Apache-2.0
"""Where the cuBLASLt library comes from: the user's choice, else PyTorch's site-packages, else the system's. Standard
library only."""

import glob
import json
import os
import subprocess

NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
TOOLKITS = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib")

# Loads a library in a process of its own, and prints the file that the loader took, and its version.
PROBE = """
import ctypes, json, os, sys
library = ctypes.CDLL(sys.argv[1])
library.cublasLtGetVersion.restype = ctypes.c_size_t
maps = [line.split()[-1] for line in open("/proc/self/maps") if "cublas" in line.rsplit("/", 1)[-1].lower()]
print(json.dumps([os.path.abspath(maps[0]) if maps else sys.argv[1], library.cublasLtGetVersion()]))
"""
PACKAGES = "import json, site, sys; print(json.dumps(sys.path + site.getsitepackages() + [site.getusersitepackages()]))"


def answer(python, script, *arguments):
    """The JSON line that a script prints, or None."""
    try:
        done = subprocess.run([python, "-B", "-c", script, *arguments], capture_output=True, text=True, timeout=60,
                              check=True)
        return json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def in_site_packages(python):
    """The libraries beside PyTorch, as the wheels of CUDA 13 (nvidia/cu13/lib) and CUDA 12 (nvidia/cublas/lib) place
    them; the newest major version first."""
    folders = list(dict.fromkeys(folder for folder in answer(python, PACKAGES) or [] if folder))
    return [file for name in NAMES for folder in folders
            for file in sorted(glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib", name)))]


def described(python, library, source):
    """One line about a library: which file, which version, who offers it."""
    found = answer(python, PROBE, library)
    if found is None:
        return f"{library} ({source}) cannot be loaded"
    return f"{found[0]}, version {found[1]} ({source})"


def system_libraries(python):
    """What the loader finds by name, or else the files of a toolkit."""
    for name in NAMES:
        if answer(python, PROBE, name):
            return [(name, "")]  # the module looks for the same names
    files = [os.path.join(folder, name) for name in NAMES for folder in TOOLKITS]
    return [(file, file) for file in files if os.path.exists(file)]


def choices(python, wanted):
    """[(line to print, the module's setting)] to try in turn; the setting "" leaves it to the system."""
    if wanted:
        file = wanted if os.path.isfile(wanted) else ""
        line = described(python, file, "as asked for") if file else f"in {wanted} (as asked for)"
        return [(line, wanted)]
    found = [(described(python, file, "site-packages"), file) for file in in_site_packages(python)]
    found += [(described(python, name, "the system's"), setting) for name, setting in system_libraries(python)]
    return found or [("none in site-packages, none where the system looks", "")]
