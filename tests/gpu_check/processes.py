# SPDX-License-Identifier: Apache-2.0
"""Child processes with time limits: each in a session of its own, ended as a whole. Standard library only."""

import os
import re
import signal
import subprocess
import threading
import time

running = set()  # the processes of run(); those of other threads, too
stopped = threading.Event()  # by end_all: nothing begins any more


class Failure(Exception):
    """A row's reason to fail."""


class Note(Exception):
    """Why a row cannot run here, which is no failure."""


def end(process, patience=0.0):
    """SIGTERM if it may take `patience` seconds to end, then SIGKILL for its whole session."""
    if process.poll() is None and patience > 0.0:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def end_all():
    """Ends what run() has started, whichever thread waits for it; what it starts from then on is ended at once."""
    stopped.set()
    for process in list(running):
        end(process)


def last_lines(text, count=3):
    return " / ".join(line for line in text.splitlines()[-count:] if line.strip())


def failure_in(text):
    """The lines that say why, of a test program, of the server or of a sanitizer; else the last ones."""
    told = [line for line in text.splitlines()
            if re.search("FAILED|Failure|[A-Z]+_[A-Z]+: |INTERNAL: |ERROR SUMMARY", line)]
    return (" / ".join(told[:6]) or last_lines(text))[:600]


def run(command, environment, log, seconds, out=None):
    """A command's stdout. It goes to `out`, stderr to `log`, as they come; both to `log` without `out`. Failure when
    the command does not end well within `seconds`."""
    start = time.monotonic()
    try:
        with open(log, "wb") as errors, open(out or log, "ab" if out is None else "wb") as stream:
            process = subprocess.Popen([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL,
                                       stdout=stream, stderr=errors if out else subprocess.STDOUT,
                                       start_new_session=True)
            running.add(process)
            try:
                status = process.wait(0.0 if stopped.is_set() else max(seconds, 0.1))
            finally:
                end(process)
                running.discard(process)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"not done after {time.monotonic() - start:.0f} s: {last_lines(read(log), 2)[:300]}") from error
    except OSError as error:
        raise Failure(str(error)) from error
    if status != 0:
        said = read(log) if out is None else read(log) + read(out)
        raise Failure(f"{'signal' if status < 0 else 'exit status'} {abs(status)}: {failure_in(said)}")
    return read(out or log)


def read(path):
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
