# SPDX-License-Identifier: Apache-2.0
"""One slice of each campaign: it fills in its figures, and says under "problem" what did not hold."""
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "chaos"))

from fault import reload_model  # noqa: E402
from mix import models  # noqa: E402
from mixed_load import MixedLoad, References  # noqa: E402
from server import Server, wait_until  # noqa: E402
from totals import Totals  # noqa: E402

CLIENTS = 48           # requests in flight: five and more in a step of each profile
WARM_S = 20            # a slice's server has its working memory by then
ROUND_S = 300          # of load, until the idle server's size is taken again
RELOAD_EVERY_S = 20
RSS_SLACK = 20 << 20   # what the allocator's pools may still take after that, as of deploy/loadtest/soak.sh
HEAP_SLACK = 4 << 20   # what is allocated and not freed
THREAD_SLACK = 4       # gRPC's own come and go
SEED_PROCESSES = 4     # of the simulation, for each processor
PATIENCE_MS = 30_000   # for a first token, when the load that a server can take is looked for: the machine may be busy


SIZES = {"rss": "process_resident_memory_bytes", "heap": "dunlin_heap_used_bytes", "threads": "process_threads",
         "descriptors": "process_open_fds"}


class Stopped(Exception):
    """By the user, in the middle of a slice."""


class Health:
    """Asks /readyz twice a second, as a probe does; what is not fine is kept."""

    def __init__(self, server):
        self.server, self.asked, self.alarms, self.longest_s = server, 0, [], 0.0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopping.wait(0.5):
            begin = time.monotonic()
            status, body = self.server.get("/readyz", timeout=15)
            self.asked += 1
            self.longest_s = max(self.longest_s, time.monotonic() - begin)
            if status != 200:
                self.alarms.append(f"{status} {body.strip()[:100]}")

    def stop(self):
        self.stopping.set()
        self.thread.join()


def size_of(server):
    return {name: int(server.metric(metric)) for name, metric in SIZES.items()}


def grew(warm, end):
    """What is not flat, in words; empty: all is."""
    slack = {"rss": RSS_SLACK, "heap": HEAP_SLACK, "threads": THREAD_SLACK, "descriptors": 2}
    return ", ".join(f"{name} from {warm[name]} to {end[name]}" for name in slack if end[name] > warm[name] + slack[name])


def wait_for(seconds, load, each_s, action):
    """Until the time is over or something is wrong; action every each_s seconds. Raises Stopped on Ctrl-C."""
    end = time.monotonic() + seconds
    following = time.monotonic() + each_s
    try:
        while time.monotonic() < end and not load.problems:
            time.sleep(0.1)
            if time.monotonic() >= following:
                action()
                following = time.monotonic() + each_s
    except KeyboardInterrupt as signal:
        raise Stopped from signal


def mixed_slice(build, ledger, seconds, figures):
    """Mixed load with reloads and clients that leave; idle, with the load's connections closed, the server is as large as it
    was when it was warm. What it has after each round of load is kept."""
    server = Server(build / "dunlin", settings=['models.0.precisions=["bf16","fp32","fp8"]', "log.level=warn"], models=models())
    begin = time.monotonic()
    load = health = None
    stopped = None
    try:
        references = References(server)
        health = Health(server)
        load = MixedLoad(server, references, CLIENTS, len(ledger.lines("responses")) + len(ledger.lines("soak")))
        wait_for(min(WARM_S, seconds / 2), load, RELOAD_EVERY_S / 4, lambda: reload_model(server))
        load.stop()
        warm = end = idle_size(server)
        compared, left, rounds = load.compared, load.left, []
        while stopped is None and not load.problems and (not rounds or time.monotonic() < begin + seconds):
            load = MixedLoad(server, references, CLIENTS, f"{time.time_ns()}")
            try:
                wait_for(min(ROUND_S, begin + seconds - time.monotonic()), load, RELOAD_EVERY_S, lambda: reload_model(server))
            except Stopped as signal:
                stopped = signal
            load.stop()
            compared, left = compared + load.compared, left + load.left
            end = idle_size(server)
            rounds.append([round(time.monotonic() - begin), end["rss"] >> 10, end["heap"] >> 10])
        health.stop()
        figures.update(responses=compared, left=left, seconds=round(time.monotonic() - begin), alarms=len(health.alarms),
                       rounds_s_rss_heap_kib=rounds,
                       **{f"{name}_{when}": size[name] for name in warm for when, size in (("warm", warm), ("end", end))})
        status = server.stop()
        figures["problem"] = (load.problems + health.alarms + [grew(warm, end)])[0] or (
            f"it ended with {status}" if status != 0 else "")
    finally:
        if load is not None:
            load.stopping.set()
        if health is not None:
            health.stopping.set()
        server.kill()
        server.remove()
    if stopped is not None:
        raise stopped


def idle_size(server):
    """Once nothing runs, no page is held and what was free has gone back to the system."""
    if server.wait_idle() is None:
        return dict.fromkeys(SIZES, sys.maxsize)
    time.sleep(2)
    return size_of(server)


def overload_slice(build, ledger, seconds, figures):
    """20 times the knee. Refusals are right; a probe that fails, or takes 15 s, is not."""
    server = Server(build / "dunlin", settings=["scheduler.max_sequences=32", "scheduler.max_queued_requests=32",
                                                "limits.max_concurrent_requests=64", "log.level=warn"])
    health = None
    try:
        knee = load_figure(build, server, "knee_goodput", "--sweep", "--concurrency", "8", "--duration", "3", "--warmup", "0.5",
                           "--sweep-steps", "4", "--sweep-refinements", "0")
        health = Health(server)
        refused = load_figure(build, server, "refused", "--rate", f"{20 * knee:.1f}", "--duration", str(seconds), "--warmup", "1")
        health.stop()
        figures.update(seconds=seconds, knee=round(knee, 1), refused=int(refused), probes=health.asked,
                       longest_probe_s=round(health.longest_s, 2), alarms=len(health.alarms))
        status = server.stop()
        figures["problem"] = (health.alarms[0] if health.alarms else "no request is refused: it is not overloaded" if refused == 0
                              else f"it ended with {status}" if status != 0 else "")
    except KeyboardInterrupt as signal:
        raise Stopped from signal
    finally:
        if health is not None:
            health.stopping.set()
        server.kill()
        server.remove()


def load_figure(build, server, name, *options):
    """A number of `dunlin load`."""
    out = server.folder / "load.json"
    done = subprocess.run([build / "dunlin", "load", "--address", server.grpc, "--model", "demo", "--input-len", "64", "--output-len",
                           "32", "--slo", f"ttft_ms={PATIENCE_MS}", "--json", out, *options], capture_output=True, text=True, check=False)
    found = re.findall(rf'"{name}":\s*(-?[0-9.e+-]+)', out.read_text() if out.exists() else "")
    if not found:
        raise RuntimeError(f"dunlin load gave no {name}: {done.stderr[-400:]}")
    return float(found[0])


def seeds_slice(build, ledger, count, figures):
    """The next ones, of the table or of this build, in parts that run at once: a seed with ranks waits for its threads longer than it
    computes."""
    first = 1 + max([Totals().done("seeds"), *(line["end"] - 1 for line in ledger.lines("seeds"))])
    parts = min(count, SEED_PROCESSES * len(os.sched_getaffinity(0)))
    borders = [first + count * part // parts for part in range(parts + 1)]
    processes = [subprocess.Popen([build / "tests" / "simulate", "--seeds", f"{begin}:{end}"], stdout=subprocess.PIPE, text=True)
                 for begin, end in zip(borders, borders[1:])]
    try:
        outputs = [process.communicate()[0] for process in processes]
    except KeyboardInterrupt as signal:
        for process in processes:
            process.kill()
            process.wait()
        figures.update(seeds=0, end=first)
        raise Stopped from signal
    failed = [output for process, output in zip(processes, outputs) if process.returncode != 0]
    figures.update(seeds=0 if failed else count, end=first + count)
    figures["problem"] = failed[0][-2000:] if failed else ""


@dataclasses.dataclass
class Kind:
    run: typing.Callable
    counts: tuple  # kinds of lines of the ledger whose `figure` adds up to the goal
    figure: str
    goal: int
    unit: int
    unit_name: str
    slice: int

    def done(self, ledger):
        """By this build, besides what the table of the tree has."""
        return sum(line.get(self.figure, 0) for line in ledger.untallied(*self.counts))

    def faults(self, ledger):
        return sum(1 for line in ledger.untallied(self.counts[0]) if line.get("problem"))


SLICES = {
    "responses": Kind(mixed_slice, ("responses", "soak"), "responses", 1_000_000, 1, "responses", 900),
    "soak": Kind(mixed_slice, ("soak",), "seconds", 8 * 3600, 3600, "hours", 1800),
    "overload": Kind(overload_slice, ("overload",), "seconds", 3600, 3600, "hours", 600),
    "seeds": Kind(seeds_slice, ("seeds",), "seeds", 1_000_000, 1, "seeds", 20_000),
}
