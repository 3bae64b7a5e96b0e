# SPDX-License-Identifier: Apache-2.0
"""The faults, a row each. A fault is given a Run with a server under load, makes the fault, and returns what is to be said of
it; what does not hold raises Broken, what this machine cannot do raises Skipped."""
import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time

from certificates import Authority
from clients import Clients, body_of, complete
from fault import Skipped, expect, reload_model, seconds
from groups import control_group
from memory_faults import memory_group, no_memory, pages_of_others
from proxy import Proxy
from server import WAIT_S, wait_until
from stopped_thread import StoppedThread


def killed(run):
    server = run.start()
    server.kill()
    run.health = f"refused after {seconds(run.watch_health(0))}"
    server.start([f"listen.grpc={server.grpc}", f"listen.http={server.http}"])
    run.answers_go_on()
    run.finish_clients(["cut off", "refused to connect", "503 LOADING"])
    return "the same ports at once, the same bytes"


def stopped(run):
    server = run.start()
    server.process.send_signal(signal.SIGSTOP)
    run.health = f"no answer after {seconds(run.watch_health(0))}"
    time.sleep(3)
    server.process.send_signal(signal.SIGCONT)
    run.health += f", fine after {seconds(run.watch_health(200))}"
    run.answers_go_on()
    run.finish_clients()
    expect("stalled" not in server.log(), "a process that was stopped is taken for a stall")
    return "every stream goes on"


def stalled_engine(run):
    server = run.start(settings=["health.stall_ms=1000", "health.exit_after_ms=0"])
    thread = StoppedThread(server.threads()["engine"][0])
    try:
        run.health = f"503 after {seconds(run.watch_health(503))}"
        time.sleep(0.5)  # admission follows /readyz within 0.1 s
        outcome = complete(server, "Who is there?", timeout=WAIT_S)[0]
        expect(outcome.startswith("503"), f"a new call was told {outcome}")
        health = server.run("healthcheck", "--address", server.grpc, "--timeout-ms", "30000")
        expect(health.returncode == 1, "gRPC's health is fine")
    finally:
        thread.let_go()
    run.health += f", fine after {seconds(run.watch_health(200))}"
    run.answers_go_on()
    run.finish_clients(["503"])
    return f"new calls: {outcome}"


def stalled_for_good(name):
    """A thread that stops may hold any lock: that of a part that the watchdog reads, or of what /readyz needs."""
    def fault(run):
        server = run.start(settings=["health.stall_ms=1000", "health.exit_after_ms=1000"])
        thread = StoppedThread(server.threads()[name][0])
        try:
            found = run.watch_health(503, 0)
            run.health = f"503, or no answer, after {seconds(found)}"
            run.exit = 71
            ended = wait_until(lambda: server.process.poll() is not None)
            expect(ended is not None, "the process goes on")
        finally:
            thread.let_go()
        run.finish_clients(["503", "cut off", "refused to connect", "ended", "no answer"])
        return f"the process ended {seconds(ended)} later"
    return fault


@contextlib.contextmanager
def small_disk(size):
    with tempfile.TemporaryDirectory(prefix="dunlin_chaos_") as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True,
                                 text=True, check=False)
        if mounted.returncode != 0:
            raise Skipped(f"no tmpfs: {mounted.stderr.strip()}")
        try:
            yield pathlib.Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=False)


def full_disk(run):
    with small_disk("64k") as disk:
        (disk / "ballast").write_bytes(b"x" * 56 * 1024)
        server = run.start(log=disk / "log", settings=["log.level=debug"])
        full = wait_until(lambda: os.statvfs(disk).f_bavail == 0)
        expect(full is not None, "the disk does not fill up")
        run.answers_go_on()
        run.health = "fine" if server.is_ready() else "not ready"
        expect(run.health == "fine", "a full disk takes the server down")
        run.finish_clients()
        expect(server.stop() == 0, "it does not stop as usual")
    return "the log is cut off, nothing else"


def changed_weights(run):
    server = run.start()
    weights = server.model / "model.safetensors"
    whole = weights.read_bytes()
    os.truncate(weights, len(whole) // 2)
    run.answers_go_on()
    failed = server.run("generate", "--address", server.grpc, "--model", "demo", "--json", "--temperature", "0", "--max-tokens", "4", "A")
    expect(failed.returncode == 0, "the served model does not answer any more")
    reload_model(server)
    expect(wait_until(lambda: server.metric("dunlin_model_last_load_failed") == 1.0) is not None, "a cut file is loaded")
    run.answers_go_on()
    weights.unlink()
    weights.write_bytes(whole)
    reload_model(server)
    expect(wait_until(lambda: server.metric("dunlin_model_last_load_failed") == 0.0) is not None, "a whole file is not loaded")
    run.answers_go_on()
    run.health = "fine" if server.is_ready() else "not ready"
    run.finish_clients()
    return "cut: the reload is refused; whole again: it replaces"


def no_descriptors(run):
    server = run.start()
    limit = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    before = server.descriptors()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (before, limit[1]))
    waiting = [complete_later(server) for _ in range(20)]
    held = [client.client for client in waiting]
    time.sleep(1)
    expect(server.process.poll() is None, "the process ended")
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limit)
    for thread in waiting:
        thread.join()
    run.health = f"fine after {seconds(run.watch_health(200))}"
    expect(all(client["outcome"] == "ok" for client in held), f"those who waited saw {[c['outcome'] for c in held]}")
    run.answers_go_on()
    run.finish_clients()
    expect(wait_until(lambda: server.descriptors() <= before + 2) is not None, "descriptors are left open")
    return "20 new connections wait, and are served"


def complete_later(server):
    result = {}
    thread = threading.Thread(target=lambda: result.update(outcome=complete(server, "Who waits?")[0]), daemon=True)
    thread.client = result
    thread.start()
    return thread


def no_threads(run):
    with control_group("pids") as group:
        server = run.start()
        group.write("cgroup.procs", server.process.pid)
        group.write("pids.max", group.read("pids.current"))
        asked = json.loads(body_of("Say", 8))
        asked.update(stream=False, response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {
            "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}})
        connection = server.connect()
        connection.request("POST", "/v1/completions", json.dumps(asked), {"Content-Type": "application/json"})
        refused = connection.getresponse()
        refused.read()
        connection.close()
        reload_model(server)  # which needs threads
        run.answers_go_on()
        group.write("pids.max", "max")
        reload_model(server)
        expect(wait_until(lambda: server.metric("dunlin_model_last_load_failed") == 0.0) is not None, "no load any more")
        run.answers_go_on()
        run.health = "fine" if server.is_ready() else "not ready"
        run.finish_clients()
        expect(server.stop() == 0, "it does not stop as usual")
    return f"a schema: {refused.status}; reloads fail until there are threads"


def stop_without_threads(run):
    with control_group("pids") as group:
        server = run.start()
        run.finish_clients()
        group.write("cgroup.procs", server.process.pid)
        group.write("pids.max", group.read("pids.current"))
        ended = server.stop()
        expect(ended == 0, f"it ended with {ended}: {server.log()[-400:]}")
    return "it drains, and ends with 0"


def clock_step(run):
    """Of the process alone, by libfaketime: the machine's clock is that of others. The monotonic one goes on, as the kernel's does."""
    library = next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if library is None:
        raise Skipped("Debian's package faketime is not installed")
    with tempfile.TemporaryDirectory(prefix="dunlin_chaos_") as folder:
        clock, following = pathlib.Path(folder) / "clock", pathlib.Path(folder) / "following"
        clock.write_text("+0\n")
        server = run.start(settings=["health.stall_ms=2000"], wrap=[
            "env", f"LD_PRELOAD={library}", f"FAKETIME_TIMESTAMP_FILE={clock}", "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"])
        for step in ("+1d", "-1d", "-20y", "+20y", "+0"):
            following.write_text(step + "\n")
            following.rename(clock)
            run.answers_go_on()
            expect(server.is_ready(), f"not ready after a step to {step}")
            health = server.run("healthcheck", "--address", server.grpc)
            expect(health.returncode == 0, f"gRPC's health after a step to {step}: {health.stderr}")
        run.health = "fine"
        run.finish_clients()
        expect("stalled" not in server.log(), "a step is taken for a stall")
        years = {line[:4] for line in server.log().splitlines()}
        expect(len(years) >= 3, f"the clock was not stepped: the log has years {sorted(years)}")
    return "a day and 20 years forth and back, by libfaketime"


def vanished_readers(run):
    server = run.start()
    sockets = []
    host, port = server.http.rsplit(":", 1)
    body = body_of("A long tale", 400).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(40):
        connection = socket.create_connection((host, int(port)))
        connection.sendall(head.encode() + body)
        sockets.append(connection)
    for connection in sockets[:20]:
        connection.recv(1)  # those read a little
    for connection in sockets:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        connection.close()
    run.answers_go_on()
    run.health = "fine" if server.is_ready() else "not ready"
    run.finish_clients()
    expect(server.wait_idle() is not None, f"requests are left: {server.held()}")
    return "40 resets: no sequence and no page is left"


def half_open(run):
    server = run.start(settings=["limits.http_read_timeout_ms=1000"])
    host, port = server.http.rsplit(":", 1)
    before = server.descriptors()
    parts = [b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n", b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{",
             b"G", b""]
    sockets = [socket.create_connection((host, int(port))) for _ in range(40)]
    for i, connection in enumerate(sockets):
        connection.sendall(parts[i % len(parts)])
    run.answers_go_on()
    expect(wait_until(lambda: server.descriptors() <= before + 12) is not None, "half-open connections are kept")
    for connection in sockets:
        connection.close()
    run.health = "fine" if server.is_ready() else "not ready"
    run.finish_clients()
    return "40 connections that stop in the middle are closed"


def bad_network(run):
    tried = subprocess.run(["unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
                           capture_output=True, text=True, check=False)
    server = run.start(clients=0)
    proxy = Proxy(server.http, delay_s=0.02, cut_every=4)
    direct, server.http = server.http, proxy.address
    run.clients = Clients(server, 6)
    expect(wait_until(lambda: run.clients.count() >= 20 and run.clients.count("cut off") >= 4), "the load does not get through")
    run.finish_clients(["cut off"])
    server.http = direct
    proxy.close()
    run.health = "fine" if server.is_ready() else "not ready"
    expect(server.wait_idle() is not None, f"requests are left: {server.held()}")
    return "a proxy of ours: 20 ms a piece, each 4th reset" + ("" if tried.returncode == 0 else "; netem is not in this kernel")


def expiring_certificate(run):
    with tempfile.TemporaryDirectory(prefix="dunlin_chaos_") as folder:
        authority = Authority(pathlib.Path(folder))
        authority.issue(lasts_s=12)
        server = run.start(tls=str(authority.root), settings=[f"tls.cert_file={authority.certificate}",
                                                               f"tls.key_file={authority.key}"])
        run.finish_clients()
        expired = wait_until(lambda: complete(server, "Who is there?")[0] != "ok")
        expect(expired is not None, "an expired certificate is taken")
        told = wait_until(lambda: "expired at" in server.log() or "expires at" in server.log())
        expect(told is not None, "the log says nothing of it")
        authority.issue(lasts_s=3600)
        run.health = f"handshakes again after {seconds(run.watch_health(200))}"
        expect(complete(server, "Who is there?")[0] == "ok", "the new certificate is not used")
    return "clients refuse it from then on; a new file is read without a signal"


FAULTS = {
    "SIGKILL": killed,
    "SIGSTOP, SIGCONT": stopped,
    "engine thread stopped": stalled_engine,
    "engine thread stopped for good": stalled_for_good("engine"),
    **{f"{name} thread stopped for good": stalled_for_good(name)
       for name in ("http", "delivery", "grpc-accept", "watchdog")},
    "full disk": full_disk,
    "weights cut, replaced": changed_weights,
    "no descriptors": no_descriptors,
    "no threads": no_threads,
    "stop without threads": stop_without_threads,
    "no address space": no_memory,
    "memory group": memory_group,
    "KV pages that others take": pages_of_others,
    "clock steps": clock_step,
    "vanished readers": vanished_readers,
    "half-open connections": half_open,
    "delay and loss": bad_network,
    "certificate expires": expiring_certificate,
}
