# SPDX-License-Identifier: Apache-2.0
"""Servers of the tests: the binary DUNLIN_BINARY with the demo model, and scripted ones that refuse as told."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import queue
import re
import secrets
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from dunlin_client import Client

ROOT = pathlib.Path(__file__).resolve().parents[3]
WAIT_S = 60
MODEL = {"device": "cpu", "kv_cache": {"memory_bytes": 64 << 20}}
DEMO = {"name": "demo", "path": str(ROOT / "models/demo"), "precisions": ["bf16", "fp8"], **MODEL}
GOLDEN = ROOT / "tests/golden/encoders"
ENCODERS = [{"name": name, "path": str(GOLDEN / folder), "device": "cpu", "precisions": ["fp32"]}
            for name, folder in (("encoder", "bert_sentence"), ("reranker", "bert_rerank"))]


@dataclass(frozen=True)
class Server:
    grpc: str
    http: str

    def cancelled(self) -> float:
        """Calls that ended as CANCELLED so far."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=WAIT_S) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines
                   if line.startswith("dunlin_requests_total{") and "CANCELLED" in line)

    def wait_for_cancelled(self, count: float) -> None:
        end = time.monotonic() + WAIT_S
        while self.cancelled() < count:
            assert time.monotonic() < end, f"{self.cancelled()} calls are cancelled; expected {count}"
            time.sleep(0.05)


@contextlib.contextmanager
def serve(folder: pathlib.Path, **config: Any) -> Iterator[Server]:
    listen = {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"}
    (folder / "server.json").write_text(json.dumps({"listen": listen, "log": {"level": "warn"}, **config}))
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen([os.environ["DUNLIN_BINARY"], "serve", "--config", folder / "server.json"],
                                   stdout=subprocess.PIPE, stderr=log)
    output = process.stdout
    assert output is not None
    lines: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=lambda: lines.put(output.readline()), daemon=True).start()
    try:
        ready = re.search(r"^READY grpc=(\S+) http=(\S+)", lines.get(timeout=WAIT_S).decode())
        assert ready is not None, (folder / "server.log").read_text()
        yield Server(ready.group(1), ready.group(2))
        process.terminate()
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()
        output.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("server"), models=[DEMO, *ENCODERS]) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.grpc, model="demo", timeout_s=WAIT_S) as made:
        yield made


@dataclass(frozen=True)
class Guarded:
    """A server with TLS and keys."""

    grpc: str
    ca_file: str
    api_key: str  # allows bf16 alone
    slow_key: str  # one request a minute


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=dunlin.test", "-addext", "subjectAltName=DNS:dunlin.test",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    api_key, slow_key = secrets.token_hex(32), secrets.token_hex(32)
    entries = [{"name": name, "hashes": [f"sha256:{hashlib.sha256(own.encode()).hexdigest()}"],
                "permissions": ["infer"], "models": ["demo"], **more}
               for name, own, more in (("team", api_key, {"precisions": ["bf16"]}),
                                       ("slow", slow_key, {"requests_per_minute": 1}))]
    (folder / "keys.json").write_text(json.dumps({"keys": entries}))
    with serve(folder, models=[DEMO], tls={"cert_file": str(cert), "key_file": str(key)},
               access={"keys_file": str(folder / "keys.json")}) as running:
        yield Guarded(running.grpc, str(cert), api_key, slow_key)


class Scripted(grpc.GenericRpcHandler):
    """Answers calls of any method by a script, one list each: messages to send, and a status to end with."""

    def __init__(self, script: list[list[Any]]) -> None:
        self.script = script
        self.calls: list[Any] = []  # metadata of each call

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        def answer(_: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
            self.calls.append(dict(context.invocation_metadata()))
            for step in self.script[len(self.calls) - 1]:
                if isinstance(step, bytes):
                    yield step
                else:
                    context.abort_with_status(step)

        if details.method.endswith("/Generate"):
            return grpc.unary_stream_rpc_method_handler(answer)
        return grpc.unary_unary_rpc_method_handler(lambda request, context: next(answer(request, context)))


class Refusal(grpc.Status):
    def __init__(self, code: grpc.StatusCode, retry_delay_s: float | None = None) -> None:
        self.code = code
        self.details = "no"
        wire = status_pb2.Status(code=code.value[0], message="no")
        if retry_delay_s is not None:
            delay = duration_pb2.Duration(nanos=int(retry_delay_s * 1e9))
            packed = any_pb2.Any()
            packed.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
            wire.details.append(packed)
        self.trailing_metadata = (("grpc-status-details-bin", wire.SerializeToString()),)


@contextlib.contextmanager
def scripted(*script: list[Any]) -> Iterator[tuple[str, Scripted]]:
    handler = Scripted(list(script))
    running = grpc.server(futures.ThreadPoolExecutor(2), handlers=[handler])
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    try:
        yield f"127.0.0.1:{port}", handler
    finally:
        running.stop(None).wait()
