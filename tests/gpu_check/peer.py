# SPDX-License-Identifier: Apache-2.0
"""The process of torch_worker.py: started once, asked job by job, ended when a job takes too long and started anew for
the next. Standard library only.

PyTorch is optional. Where it cannot be imported, every job is answered by Missing with the reason.
"""

import json
import os
import pathlib
import selectors
import subprocess
import time

from processes import end, last_lines, read

WORKER = pathlib.Path(__file__).resolve().parent / "torch_worker.py"
IMPORT_SECONDS = 100


class Missing(Exception):
    """Why there is no PyTorch."""


class Broken(Exception):
    """Why a job of PyTorch ended early."""


class Peer:
    def __init__(self, command, environment, log):
        self.command, self.environment, self.log = command, environment, log
        self.process, self.rest, self.version, self.reason = None, b"", "", None

    def start(self):
        """Starts the import, without waiting for it."""
        with open(self.log, "ab") as log:
            try:
                self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.PIPE,
                                                stdout=subprocess.PIPE, stderr=log, start_new_session=True)
            except OSError as error:
                self.reason = str(error)
        self.rest, self.version = b"", ""

    def ready(self, seconds=IMPORT_SECONDS):
        """PyTorch's version; Missing if it cannot be imported, then and from then on."""
        if self.reason is None and self.process is None:
            self.start()
        if self.reason is None and not self.version:
            try:
                first = next(self.lines(seconds), {"unavailable": "the worker said nothing"})
            except Broken as error:
                first = {"unavailable": str(error)}
            self.version, self.reason = first.get("torch", ""), first.get("unavailable")
        if self.reason is not None:
            self.close()
            raise Missing(self.reason)
        return self.version

    def ask(self, job, seconds):
        """The worker's answers as they come. Missing: no PyTorch; Broken: the job failed, or took longer."""
        limit = time.monotonic() + seconds
        self.ready(min(seconds, IMPORT_SECONDS))
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
            last = {}
            for last in self.lines(limit - time.monotonic()):
                if "failed" in last or "done" in last:
                    break
                yield last
            if "failed" not in last and "done" not in last:
                raise Broken("the worker ended: " + last_lines(read(self.log), 2)[:300])
        except (Broken, OSError) as error:
            self.close()
            raise Broken(str(error)) from error
        if "failed" in last:
            raise Broken(last["failed"])

    def lines(self, seconds):
        """JSON lines of its output until it ends; Broken when the time is up."""
        limit = time.monotonic() + seconds
        descriptor = self.process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while True:
                whole, newline, rest = self.rest.partition(b"\n")
                if newline:
                    self.rest = rest
                    if whole.startswith(b"{"):
                        yield json.loads(whole)
                    continue
                if not selector.select(max(0.0, limit - time.monotonic())):
                    raise Broken(f"not done after {seconds:.0f} s")
                read_bytes = os.read(descriptor, 1 << 16)
                if not read_bytes:
                    return
                self.rest += read_bytes

    def close(self):
        if self.process is not None:
            end(self.process)
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None
        self.version = ""
