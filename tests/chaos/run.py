#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes faults happen to a real server under load, one after another, and prints a line for each: what clients saw, how soon
health said so, what was left behind.

Usage: run.py BINARY [FAULT ...]. A fault's name or its beginning. Exit status 1: a promise did not hold.
"""
import argparse
import http.client
import pathlib
import sys
import time

from fault import Broken, Run, Skipped
from faults import FAULTS
from server import shared_files


def try_fault(binary, fault):
    """(whether it holds, the line)."""
    run = Run(binary)
    before = shared_files()
    try:
        verdict = fault(run)
        status = run.server.stop()
        left = run.server.left_behind(before)
        expected = run.exit if run.exit is not None else 0
        if status != expected:
            return False, f"BROKEN: it ended with {status} instead of {expected}: {run.server.log()[-800:]}"
        if left != "nothing":
            return False, f"BROKEN: left behind: {left}"
        return True, f"clients: {run.saw} | health: {run.health} | left: {left} | {verdict}"
    except Skipped as reason:
        return True, f"skipped: {reason}"
    except Broken as problem:
        return False, f"BROKEN: {problem}"
    except (OSError, RuntimeError, http.client.HTTPException) as problem:
        log = run.server.log()[-800:] if run.server else ""
        return False, f"BROKEN: {type(problem).__name__}: {problem} {log}"
    finally:
        if run.clients:
            run.clients.stopping.set()
        if run.server:
            run.server.kill()
            run.server.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    chosen = {name: fault for name, fault in FAULTS.items()
              if not arguments.names or any(name.startswith(wanted) for wanted in arguments.names)}
    if not chosen:
        parser.error(f"no fault is named so; there are: {', '.join(FAULTS)}")
    broken = 0
    for name, fault in chosen.items():
        begin = time.monotonic()
        holds, line = try_fault(arguments.binary.resolve(), fault)
        broken += not holds
        print(f"{name:31} {line} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(chosen) - broken} of {len(chosen)} faults as promised")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
