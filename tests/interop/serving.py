# SPDX-License-Identifier: Apache-2.0
"""A server of one's own on loopback, for the runner and for programs whose models are not those of the runner."""

import collections
import contextlib
import json
import pathlib
import queue
import re
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
READY_S, STOP_S = 60, 30
KV_BYTES = 64 << 20

# What programs are told of the server: the URL of its HTTP port as an argument, the others as INTEROP_GRPC and
# INTEROP_BINARY.
Server = collections.namedtuple("Server", "base_url grpc binary")


def model(name, path, precision="bf16", **kv_cache):
    """A row of a config's models, with bounded memory."""
    return {"name": name, "path": str(path), "device": "cpu", "precisions": [precision],
            "kv_cache": {"memory_bytes": KV_BYTES, **kv_cache}}


@contextlib.contextmanager
def serve(binary, folder, models, **more):
    """A Server of models, its config and log in folder; checks how it ends. more: further keys of the config."""
    config = {"listen": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"}, "log": {"level": "warn"}, "models": models, **more}
    (folder / "server.json").write_text(json.dumps(config))
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen([binary, "serve", "--config", folder / "server.json"], stdout=subprocess.PIPE,
                                   stderr=log)
    # The wait for the ready line is bounded.
    lines = queue.Queue()
    threading.Thread(target=lambda: lines.put(process.stdout.readline().decode()), daemon=True).start()
    try:
        ready = re.search(r"^READY grpc=(\S+) http=(\S+)", lines.get(timeout=READY_S))
        if ready is None:
            raise RuntimeError(f"the server did not start: {(folder / 'server.log').read_text()[-800:]}")
        yield Server(f"http://{ready.group(2)}", ready.group(1), str(binary))
        process.terminate()
        if process.wait(STOP_S) != 0:
            raise RuntimeError(f"the server ended with exit status {process.returncode}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
