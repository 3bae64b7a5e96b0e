# SPDX-License-Identifier: Apache-2.0
"""Runs one measuring process and grants its turns. Standard library only.

A worker says {"metric": "ready"} before each measurement and waits for a line (worker.py). A turn may be taken
inside a gate: a command that runs its arguments while nothing else does; the turn lasts as long as that runs.
"""

import json
import os
import selectors
import signal
import subprocess
import time

HOLD = ("sh", "-c", "echo go; read -r line")  # what runs inside the gate


class GateClosed(Exception):
    """Closed during a measurement."""


class Gate:
    """Opened before a turn; turns that begin within `seconds`, of one worker or of whole processes, share it."""

    def __init__(self, command, seconds):
        self.command, self.seconds = command, seconds
        self.process, self.opened = None, 0.0

    def open(self):
        if self.process and time.monotonic() - self.opened > self.seconds:
            self.close()
        if self.command and not self.process:
            self.process = subprocess.Popen([*self.command, *HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            if self.process.stdout.readline() != b"go\n":
                raise RuntimeError("the gate did not open")
            self.opened = time.monotonic()

    def close(self):
        if self.process:
            self.process.stdin.close()  # HOLD has read to its end
            self.process.wait(60)
            self.process.stdout.close()
            self.process = None

    def held(self):
        return self.process is None or self.process.poll() is None


def end(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)  # its own session: nothing else is in it
    process.wait()
    process.stdin.close()
    process.stdout.close()


def run(command, gate, seconds, variables, log, whole=False):
    """([answers], why it failed or None). `whole`: the process takes one turn from its start to its end, and leaves the
    gate open for the next."""
    answers = []
    if whole:
        gate.open()
    else:
        gate.close()  # loading is no part of a turn
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=variables,
                               start_new_session=True)
    try:
        for line in lines_of(process, seconds, gate):
            answer = json.loads(line)
            if answer.get("metric") == "ready":
                gate.open()
                process.stdin.write(b"\n")
                process.stdin.flush()
            else:
                answers.append(answer)
        process.wait(60)
        return answers, f"exit code {process.returncode}, see workers.log" if process.returncode else None
    except TimeoutError:
        return answers, f"ended after {seconds:.0f} s"
    except GateClosed:
        return answers, "the gate closed during a measurement"
    finally:
        end(process)
        if not whole:
            gate.close()


def lines_of(process, seconds, gate):
    """JSON lines of its output as they come; TimeoutError when the time is up. Waiting for a gate counts."""
    limit, rest = time.monotonic() + seconds, b""
    descriptor = process.stdout.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            ready = selector.select(min(0.5, max(0.0, limit - time.monotonic())))
            if not gate.held():
                raise GateClosed
            if not ready:
                if time.monotonic() >= limit:
                    raise TimeoutError
                continue
            read = os.read(descriptor, 1 << 16)
            *whole, rest = (rest + read).split(b"\n")
            yield from (line for line in whole if line.startswith(b"{"))
            if not read:
                return
