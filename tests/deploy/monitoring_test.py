#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prometheus scrapes a loaded server: its rules load, every metric arrives, and every query of the Grafana dashboard
returns a number. Also runs promtool over deploy/prometheus.

Usage: monitoring_test.py BINARY. Needs prometheus and promtool, on PATH or where deploy/prometheus_tools.sh puts them;
exits with 77, which ctest takes as skipped, where they are missing.
"""
import contextlib
import json
import math
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "deploy/prometheus"
SKIPPED = 77
LOAD_SECONDS = 12  # at least; a slow machine or build takes longer to get every kind of answer
LOAD_SECONDS_MAX = 90
WINDOW = "30s"  # what Grafana would put for $__rate_interval
MAX_REQUESTS = 3  # in flight: fewer than the clients, so that some are refused as a full server does
CLIENTS = 5
# Of a server with TLS, which this one has not; tls_process_test reads it.
ABSENT = {"dunlin_tls_certificate_expires_in_seconds"}


def free_port():
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def stop(process):
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(what, seconds, condition):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.1)
    sys.exit(f"FAILED: {what} within {seconds} s")


@contextlib.contextmanager
def running(command, log_path, **options):
    with open(log_path, "w") as log:
        process = subprocess.Popen(command, stderr=log, **options)
        try:
            yield process
        finally:
            stop(process)


def start_arguments(binary):
    return [binary, "serve", "--config", str(ROOT / "configs/demo.json"), "--set", "listen.grpc=127.0.0.1:0", "--set",
            "listen.http=127.0.0.1:0", "--set", f"limits.max_concurrent_requests={MAX_REQUESTS}", "--set",
            "models.0.max_adapters=2"]


def ready_addresses(server):
    line = server.stdout.readline()
    match = re.fullmatch(r"READY grpc=(\S+) http=(\S+)\n", line)
    if not match:
        sys.exit(f"FAILED: the server said {line!r} for READY")
    return match.groups()


def ask_with_unknown_member(http):
    body = json.dumps({"model": "demo", "prompt": "The dunlin", "max_tokens": 4, "mood": "calm"}).encode()
    request = urllib.request.Request(f"http://{http}/v1/completions", body, {"Content-Type": "application/json"})
    with contextlib.suppress(urllib.error.HTTPError):  # refused: the server is full
        urllib.request.urlopen(request, timeout=60).read()


def client(binary, grpc, http, number, ended):
    """Until it has ended: requests of every backend and precision, one of n outputs, one that is refused, one that runs out of time;
    over HTTP one with a member that has no effect."""
    prompt = "The history of the town and of the people who came to live by the sea, as they told it:"
    common = [binary, "generate", "--address", grpc, "--model", "demo"]
    requests = [[*common, "--attention-backend", backend, "--precision", precision, "--max-tokens", "24", prompt]
                for backend in ("flash", "efficient", "math")
                for precision in ("bf16", "fp8", "fp16", "fp32", "int8", "int4")]
    requests += [[*common, "--n", "2", "--max-tokens", "8", prompt], [*common, "--top-p", "1.5", prompt],
                 [*common, "--max-tokens", "900", "--ignore-eos", "--timeout-ms", "50", prompt]]
    turn = number * 3
    while not ended.is_set():
        if turn % len(requests) == 0:
            ask_with_unknown_member(http)
        subprocess.run(requests[turn % len(requests)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        turn += 1


def load(binary, grpc, http, enough):
    """Clients ask until `enough` is true, for LOAD_SECONDS at least."""
    ended = threading.Event()
    clients = [threading.Thread(target=client, args=(binary, grpc, http, number, ended)) for number in range(CLIENTS)]
    for thread in clients:
        thread.start()
    try:
        time.sleep(LOAD_SECONDS)
        wait_for("requests that are served, refused and late", LOAD_SECONDS_MAX - LOAD_SECONDS, enough)
    finally:
        ended.set()
        for thread in clients:
            thread.join()


def prometheus_config(http):
    """deploy/prometheus/prometheus.yaml with our target, and intervals of a test."""
    text = (PROMETHEUS / "prometheus.yaml").read_text()
    for old, new in (('"server:8080"', f'"{http}"'), ("interval: 15s", "interval: 1s"),
                     ("- alerts.yaml", f"- {PROMETHEUS / 'alerts.yaml'}")):
        if old not in text:
            sys.exit(f"FAILED: prometheus.yaml has no {old}")
        text = text.replace(old, new)
    return text


class Api:
    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}/api/v1/"

    def get(self, path, **parameters):
        url = self.base + path + "?" + urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return None  # starting
            sys.exit(f"FAILED: {path} {parameters}: {error.read().decode()}")
        except OSError:
            return None  # not listening yet

    def finite(self, query):
        """The series of a query whose value is a number."""
        result = self.get("query", query=query)["result"]
        return [series for series in result if math.isfinite(float(series["value"][1]))]

    def total(self, query):
        return sum(float(series["value"][1]) for series in self.finite(query))

    def target_is_up(self):
        data = self.get("query", query='up{job="dunlin"}')
        return data and [series for series in data["result"] if series["value"][1] == "1"]


def dashboard_queries():
    """Each query as Grafana would send it, and the labels that its legend shows."""
    def walk(node):
        if isinstance(node, dict):
            if "expr" in node:
                yield node["expr"], re.findall(r"{{(\w+)}}", node["legendFormat"])
            for value in node.values():
                yield from walk(value)
        elif isinstance(node, list):
            for value in node:
                yield from walk(value)

    dashboard = json.loads((ROOT / "deploy/grafana/dunlin.json").read_text())
    for query, labels in walk(dashboard):
        query = query.replace("$__rate_interval", WINDOW).replace("$model", ".+")
        if "$" in query:
            sys.exit(f"FAILED: a variable that this test does not know in {query}")
        yield query, labels


def answers(api):
    """The numbers of requests that were served, refused for lack of capacity, and too late."""
    return [api.total(query) for query in ('dunlin_requests_total{status="OK"}',
                                           'dunlin_refusals_total{reason="TOO_MANY_REQUESTS"}',
                                           'dunlin_requests_total{status="DEADLINE_EXCEEDED"}')]


def missing_metrics(api):
    names = set(api.get("label/__name__/values"))
    golden = (ROOT / "tests/server/observe/metrics/metric_names.txt").read_text().split("\n")
    expected = [line for line in golden if line and line.split()[0] not in ABSENT]
    return [line for line in expected if not {line.split()[0], line.split()[0] + "_bucket"} & names]


def check(api):
    failures = [f"metric {name} did not arrive" for name in missing_metrics(api)]
    queries = list(dashboard_queries())
    for query, labels in queries:
        series = api.finite(query)
        if query in ABSENT and not series:
            continue
        if not series:
            failures.append(f"the dashboard's {query} returns no number")
        elif not all(label in one["metric"] for one in series for label in labels):
            failures.append(f"the dashboard's {query} lacks one of the labels {labels} of its legend")
    rules = [rule for group in api.get("rules")["groups"] for rule in group["rules"]]
    for rule in rules:
        if rule["health"] != "ok":
            failures.append(f"rule {rule['name']} is {rule['health']}: {rule.get('lastError')}")
    served, full, late = answers(api)
    print(f"served {served:.0f}, refused for room {full:.0f}, late {late:.0f}; {len(queries)} queries, {len(rules)} rules")
    return failures


def promtool():
    for command in (["check", "config", PROMETHEUS / "prometheus.yaml"], ["check", "rules", PROMETHEUS / "alerts.yaml"],
                    ["test", "rules", ROOT / "tests/deploy/alerts_test.yaml"]):
        done = subprocess.run(["promtool", *map(str, command)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"FAILED: promtool {command[0]} {command[1]}\n{done.stdout}{done.stderr}")
        print(f"promtool {command[0]} {command[1]}: ok")


def main():
    os.environ["PATH"] += f":{ROOT / 'build/prometheus'}"
    if not (shutil.which("prometheus") and shutil.which("promtool")):
        print("skipped: needs prometheus and promtool (deploy/prometheus_tools.sh)")
        sys.exit(SKIPPED)
    binary = sys.argv[1]
    promtool()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        server = stack.enter_context(running(start_arguments(binary), f"{folder}/server.log", stdout=subprocess.PIPE,
                                             text=True))
        grpc, http = ready_addresses(server)
        (pathlib.Path(folder) / "prometheus.yaml").write_text(prometheus_config(http))
        port = free_port()
        stack.enter_context(running(["prometheus", f"--config.file={folder}/prometheus.yaml",
                                     f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                    f"{folder}/prometheus.log"))
        api = Api(port)
        wait_for("Prometheus has scraped the server", 90, api.target_is_up)
        load(binary, grpc, http, lambda: all(answers(api)))
        time.sleep(2)  # the last scrape, and a round of the rules after it
        failures = check(api)
    for failure in failures:
        print(f"FAILED: {failure}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
