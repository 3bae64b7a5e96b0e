# SPDX-License-Identifier: Apache-2.0
"""Faults of memory: address space, control groups, and what others in a group take."""
import http.client
import json
import os
import pathlib
import resource
import threading
import time

from clients import Clients
from fault import Skipped, expect, reload_model
from groups import Neighbour, control_group
from server import wait_until
from stopped_thread import StoppedThread

MIB = 1 << 20


def no_memory(run):
    server = run.start()
    limit = resource.prlimit(server.process.pid, resource.RLIMIT_AS)
    size = int((pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split())[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (size + (4 << 20), limit[1]))
    reload_model(server)
    failed = wait_until(lambda: server.process.poll() is not None or server.metric("dunlin_model_last_load_failed") == 1.0)
    expect(server.process.poll() is None, "a load without memory ends the process")
    expect(failed is not None, "a load without memory is served")
    run.answers_go_on()
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, limit)
    reload_model(server)
    expect(wait_until(lambda: server.metric("dunlin_model_last_load_failed") == 0.0) is not None, "no load any more")
    run.answers_go_on()
    run.health = "fine" if server.is_ready() else "not ready"
    run.finish_clients()
    return "the reload fails, the served version goes on"


def memory_group(run):
    with control_group("memory") as group:
        group.limit_memory(700 * MIB)
        server = run.start(wrap=group.wrap())
        run.answers_go_on()
        run.health = "fine" if server.is_ready() else "not ready"
        run.finish_clients()
        expect(server.stop() == 0, "it does not stop as usual")
        return f"planned for 700 MiB, {group.peak() // MIB} MiB at most"


POOL_MIB, GROUP_MIB, NEIGHBOUR_MIB = 1024, 1600, 500


def pages_of_others(run):
    """A pool that the plan has room for, of which another process of the group takes a part before it has its memory."""
    if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 2 * GROUP_MIB * MIB:
        raise Skipped(f"needs {2 * GROUP_MIB} MiB of free memory")
    with control_group("memory") as group:
        group.limit_memory(GROUP_MIB * MIB)
        neighbour = Neighbour(group, NEIGHBOUR_MIB * MIB)
        try:
            return meet_limit(run, group, neighbour)
        finally:
            neighbour.end()
            if run.server is not None:
                run.server.kill()


def meet_limit(run, group, neighbour):
    server = run.start(clients=0, wrap=group.wrap(), settings=[f"models.0.kv_cache.memory_bytes={POOL_MIB * MIB}",
                                                              f"memory.request_bytes={180 * MIB}"])
    backing = server.threads().get("kv-pages")
    expect(backing, "the pool has all of its memory already")
    thread = StoppedThread(backing[0])
    try:
        run.clients = Clients(server, 6)
        neighbour.take()
    finally:
        thread.let_go()
    ended = wait_until(lambda: server.process.poll() is not None or (server.metric("dunlin_kv_pages_missing") or 0) > 0)
    expect(server.process.poll() is None, "the process ended")
    expect(ended is not None, "the pool takes what others have")
    pages = int(server.metric("dunlin_kv_pages_total"))
    backed = int(server.metric("dunlin_kv_pages_backed"))
    expect("the system has memory for" in server.log(), "no warning")
    run.answers_go_on()
    large_requests(server)
    run.answers_go_on()
    run.health = "fine" if server.is_ready() else "not ready"
    run.finish_clients()
    expect(group.killed() == 0, "the kernel has killed a process of the group")
    expect(server.stop() == 0, "it does not stop as usual")
    return f"{backed} of {pages} pages, a warning; with large requests {group.peak() // MIB} of {GROUP_MIB} MiB, nobody is killed"


def large_requests(server, lasts_s=6, clients=12):
    """What requests may take of memory, they take: texts and lists of megabytes, whatever becomes of them. A refusal may come
    before the body was read, and close the connection."""
    bodies = [json.dumps({"model": "demo", "prompt": "sea " * 500000, "max_tokens": 1}),
              json.dumps({"model": "demo", "prompt": [7] * 500000, "max_tokens": 1}),
              json.dumps({"model": "demo", "prompt": "sea " * 200, "max_tokens": 16, "logprobs": 5, "n": 4})]
    end = time.monotonic() + lasts_s
    seen = set()

    def ask(number):
        while time.monotonic() < end:
            connection = server.connect()
            try:
                connection.request("POST", "/v1/completions", bodies[number % len(bodies)], {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                seen.add(answer.status)
            except ConnectionError:
                seen.add("closed")
            except (OSError, http.client.HTTPException) as problem:
                seen.add(type(problem).__name__)
            finally:
                connection.close()
            number += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    expect(seen <= {200, 400, 413, 429, 503, "closed"}, f"large requests were answered with {seen}")
