#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Applies the bugs of mutants.toml one at a time to a copy of the tree, builds `simulate` there and runs seeds until one
fails. Prints a line for each: its name, the level, the seed and what broke.

Usage: mutants.py BUILD [--seeds N] [--jobs N] [NAME ...]. BUILD is the folder for the copy and its objects. The first run builds what
`simulate` needs; then a mutant takes the compilation of its file and a link. Exit status 1: a bug was not found within
N seeds, or its text is not in its file exactly once, which means that the code has moved on: mend the row.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
HANG_S = 1200  # of all seeds, which take some ten seconds on a processor of their own
# Without unity batches, so that a mutant compiles one file.
CONFIGURE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DDUNLIN_CPU_VARIANTS=native"]


def copy_tree(tree):
    """Files that are new or have changed since the last copy."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True,
                            text=True).stdout.splitlines()
    for name in listed:
        source, target = ROOT / name, tree / name
        if not source.is_file() or (target.is_file() and target.read_bytes() == source.read_bytes()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)


def build(objects, jobs):
    """None, or the last lines of the compiler."""
    done = subprocess.run(["ninja", "-C", objects, f"-j{jobs}", "simulate"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return None if done.returncode == 0 else "\n".join(done.stdout.splitlines()[-20:])


def simulate(objects, seeds):
    """The first line of a failure, or None."""
    command = [objects / "tests" / "simulate", "--seeds", f"1:{seeds + 1}"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                              timeout=HANG_S, start_new_session=True, check=False)
    except subprocess.TimeoutExpired:
        return f"a run that does not end within {HANG_S} s"
    if done.returncode == 0:
        return None
    found = re.search(r"^seed \d+, level .*$", done.stdout, re.M)
    line = found.group(0) if found else "no seed was named"
    broken = re.search(r"broken invariant: (.*)$", done.stderr, re.M)
    return f"{line}: {broken.group(1)}" if broken else line


def try_mutant(mutant, tree, objects, arguments):
    """What found it, or None."""
    path = tree / mutant["file"]
    text = path.read_text()
    if text.count(mutant["old"]) != 1:
        return None, f"its text is {text.count(mutant['old'])} times in {mutant['file']}"
    path.write_text(text.replace(mutant["old"], mutant["new"]))
    try:
        failed = build(objects, arguments.jobs)
        if failed:
            return None, f"does not compile:\n{failed}"
        return simulate(objects, arguments.seeds), f"survives {arguments.seeds} seeds"
    finally:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=20000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_intermixed_args()
    mutants = tomllib.loads((pathlib.Path(__file__).parent / "mutants.toml").read_text())["mutant"]
    unknown = set(arguments.names) - {mutant["name"] for mutant in mutants}
    if unknown:
        parser.error(f"no mutant is named {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in mutants if not arguments.names or mutant["name"] in arguments.names]
    tree, objects = arguments.build.resolve() / "tree", arguments.build.resolve() / "objects"
    copy_tree(tree)
    if not (objects / "build.ninja").is_file():
        subprocess.run(["cmake", "-S", tree, "-B", objects, *CONFIGURE], check=True, stdout=subprocess.DEVNULL)
    problem = build(objects, arguments.jobs)
    problem = problem or simulate(objects, arguments.seeds)
    if problem:
        sys.exit(f"without a mutant:\n{problem}")
    found = 0
    for mutant in chosen:
        by, otherwise = try_mutant(mutant, tree, objects, arguments)
        found += by is not None
        print(f"{mutant['name']:36} {by if by else 'NOT FOUND: ' + otherwise}", flush=True)
    print(f"{found} of {len(chosen)} bugs found")
    return 0 if found == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
