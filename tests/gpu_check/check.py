# SPDX-License-Identifier: Apache-2.0
"""One run of gpu_check: the options, what was found on the machine, the clock of a part, and a row's work from its
beginning to its line in the table. Standard library only.

Rows that run together have a thread each, with a clock of its own; a verdict is added under a lock."""

import concurrent.futures
import os
import pathlib
import re
import sys
import threading
import time

import peer
import processes
import results
from processes import Failure, Note

GIB_TOGETHER = 4  # GPU memory for each of the rows that run together: a context, a pool and small models
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Check:
    def __init__(self, options):
        self.options = options
        self.folder = options.folder
        usual = "tests/libfake_cuda.so" if options.rehearse else "libdunlin_cuda.so"
        self.module = options.module or self.folder / usual
        self.out = options.out / "no_device"  # until the device has a name
        self.out.mkdir(parents=True, exist_ok=True)
        self.results = results.Results(self.out, options.build)
        self.cublas = ""
        # Monotonic seconds: end of the row, or of its part if that is sooner. Of rows that run together, each thread's
        # own; else of all threads, since a row may start some.
        self.until = None
        self.own = threading.local()
        self.adding = threading.Lock()
        self.running = set()  # names of rows that have begun and have no verdict yet
        self.gpu_gib = 0.0  # 0: unknown
        self.environment = dict(os.environ, DUNLIN_TEST_CUDA_MODULE=str(self.module),
                                DUNLIN_TEST_FAKE_MODULE=str(self.module), DUNLIN_TEST_ROOT=str(ROOT))
        self.peer = None  # until the device is open
        self.served = None  # the servers, once a row has asked for them
        self.here = HERE

    def start_peer(self):
        """PyTorch, in the environment of the caller: the libraries of the bundle are not its own."""
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        environment["LD_LIBRARY_PATH"] = self.options.caller_libraries
        device = "cpu" if self.options.rehearse else "cuda"
        self.peer = peer.Peer([self.options.python, "-B", str(peer.WORKER), "--device", device], environment,
                              self.out / "pytorch.log")
        self.peer.start()

    def seconds_left(self):
        return max(0.0, getattr(self.own, "until", self.until) - time.monotonic())

    def arguments(self, row):
        return row.rehearsal if self.options.rehearse else row.gpu

    def bench_command(self, arguments, cublas_setting=None):
        setting = self.cublas if cublas_setting is None else cublas_setting
        words = arguments.split()
        for name, folder in (("OUT/", self.out), ("ROOT/", ROOT)):
            words = [f"{folder}/{word.removeprefix(name)}" if word.startswith(name) else word for word in words]
        command = [self.folder / "dunlin", "bench", *words, "--device", "cuda", "--cuda-module", self.module, "--json",
                   "--max-seconds", "0.01" if self.options.rehearse else "0.5"]
        return command + (["--cublas-library", setting] if setting else [])

    def run(self, command, log, out=None, more=None):
        """more: variables added to the environment."""
        return processes.run(command, {**self.environment, **(more or {})}, self.out / log, self.seconds_left(), self.out / out if out else None)

    def work(self, row, function, part_end):
        """Runs a row within its limits and adds its verdict."""
        start = time.monotonic()
        clock = self.own if row.together else self
        clock.until = min(start + row.limit, part_end)
        self.running.add(row.name)
        before = {file.name for file in self.out.iterdir()}
        try:
            verdict, result = "pass", function(self, row)
        except Note as error:
            verdict, result = "note", str(error)
        except Failure as error:
            verdict, result = "FAIL", str(error)
            if time.monotonic() >= part_end:
                result += f" (the time of part {row.part} is over)"
        except Exception as error:  # this program's own fault must not cost the other rows
            verdict, result = "FAIL", f"gpu_check itself: {type(error).__name__}: {error}"
        self.add_verdict(row, verdict, time.monotonic() - start, result, None if row.together else before)
        return verdict

    def work_together(self, selected, function, part_end):
        """Runs rows at once, as many as there are processors and GPU memory for; with unknown memory two."""
        room = int(self.gpu_gib) // GIB_TOGETHER if self.gpu_gib else 2
        with concurrent.futures.ThreadPoolExecutor(max(1, min(len(selected), os.cpu_count() or 1, room))) as pool:
            try:
                list(pool.map(lambda row: self.work(row, function(row), part_end), selected))
            except BaseException:  # a signal: what has not begun does not begin, what runs is ended
                pool.shutdown(wait=False, cancel_futures=True)
                processes.end_all()
                raise

    def add_verdict(self, row, verdict, seconds, result, before=()):
        """before: the files that were there when the row began; None: other rows wrote files, too."""
        with self.adding:
            self.running.discard(row.name)
            logs = {file.name for file in self.out.iterdir() if file.suffix == ".log"}
            fresh = sorted(name for name in logs if name.startswith(row.name + ".")
                           or (before is not None and name not in before))
            self.results.add("row", row.name, verdict=verdict, seconds=round(seconds, 1), result=result,
                             logs=fresh if verdict == "FAIL" else [])
            self.results.write_table()
            self.results.write_summary()
            print(results.table_line(self.results.lines[-1]), file=sys.stderr, flush=True)

    def note_machine(self, name, value):
        self.results.add("machine", name=name, value=value)
        print(f"{name}: {value}", file=sys.stderr, flush=True)

    def move_to(self, device):
        """The folder named after the device, in place of the nameless one."""
        chip = re.match(r"[^,]*(, sm_\d+)?", device)[0]  # without the libraries that a description goes on to name
        named = self.out.parent / (re.sub(r"\W+", "_", chip).strip("_") or "device")
        lines = [line for line in self.results.lines if line["run"] == self.results.run]
        self.results.stream.close()
        nameless, self.out = self.out, named
        self.results = results.Results(named, self.options.build)
        for line in lines:
            self.results.add(line["kind"], line["row"], **{name: value for name, value in line.items()
                                                           if name not in ("kind", "run", "build", "row")})
        for file in nameless.iterdir():
            file.replace(named / file.name) if file.suffix == ".log" else file.unlink()
        nameless.rmdir()

    def close_servers(self):
        if self.served is not None:
            self.served.close()
            self.served = None

    def close(self):
        self.close_servers()
        if self.peer is not None:
            self.peer.close()
