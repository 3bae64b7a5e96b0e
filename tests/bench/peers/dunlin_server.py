# SPDX-License-Identifier: Apache-2.0
"""A `dunlin serve` process: time to READY, resident memory, and greedy tokens by `dunlin generate`.

Standard library only.
"""

import json
import pathlib
import re
import subprocess
import time


class Server:
    """`with Server(...) as server:`; ends the process it started."""

    def __init__(self, binary, directory, precisions, work, threads=0, kv_bytes=1 << 28, timeout=120):
        self.binary, self.timeout = binary, timeout
        config = {"listen": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"},
                  "compute": {"threads": threads},
                  "models": [{"name": "m", "path": str(directory), "device": "cpu", "precisions": precisions,
                              "kv_cache": {"memory_bytes": kv_bytes}, "max_context_tokens": 1024}]}
        self.config = pathlib.Path(work) / "dunlin_server.json"
        self.config.write_text(json.dumps(config))
        self.log = pathlib.Path(work) / "dunlin_server.log"

    def __enter__(self):
        start = time.perf_counter()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([self.binary, "serve", "--config", str(self.config)],
                                            stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline().decode()  # the log's timeout is the start's own: it exits when it fails
        self.ready_seconds = time.perf_counter() - start
        if not line.startswith("READY "):
            self.__exit__()
            raise RuntimeError(f"dunlin serve did not start, see {self.log.name}")
        self.address = re.search(r"grpc=(\S+)", line).group(1)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def resident_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))

    def planned_bytes(self):
        """Bytes of the weights, and of the memory plan with its KV pool, as the start's log says them."""
        text = self.log.read_text()
        return {"weights": sum(int(n) for n in re.findall(r"weights (\d+) bytes", text)),
                "plan": sum(int(n) for n in re.findall(r"buffers: .*; (\d+) bytes", text))}

    def greedy(self, tokens, new_tokens, precision):
        command = [self.binary, "generate", "--address", self.address, "--model", "m", "--json", "--temperature", "0",
                   "--ignore-eos", "--max-tokens", str(new_tokens), "--precision", precision,
                   "--token-ids", ",".join(map(str, tokens))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=self.timeout, check=True)
        return json.loads(done.stdout)["token_ids"]
