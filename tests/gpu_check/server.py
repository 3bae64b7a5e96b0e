# SPDX-License-Identifier: Apache-2.0
"""A `dunlin serve` process and its clients. Standard library only."""

import json
import pathlib
import re
import subprocess
import time
import urllib.request

from processes import Failure, end, failure_in, last_lines, read

CALL_SECONDS = 60


class Refusal(Failure):
    """What the device says it does not take."""


class Server:
    """Started by the constructor; `close` ends it."""

    def __init__(self, check, name, config, seconds):
        self.check = check
        self.binary, self.environment = check.folder / "dunlin", check.environment
        self.log = check.out / f"{name}.log"
        config_file, ready_file = check.out / f"{name}.json", check.out / f"{name}.ready"
        config_file.write_text(json.dumps(config, indent=1) + "\n")
        with open(self.log, "wb") as log, open(ready_file, "wb") as ready:
            self.process = subprocess.Popen([str(self.binary), "serve", "--config", str(config_file)], stdout=ready,
                                            stderr=log, stdin=subprocess.DEVNULL, env=self.environment,
                                            start_new_session=True)
        try:
            self.grpc, self.http = self.ready(name, ready_file, seconds)
        except BaseException:  # a signal too: nobody else knows the process yet
            self.close()
            raise

    def ready(self, name, file, seconds):
        """The addresses of gRPC and HTTP."""
        limit = time.monotonic() + seconds
        while True:
            found = re.search(r"^READY grpc=(\S+) http=(\S+)$", read(file), re.M)
            if found is not None:
                return found[1], found[2]
            if self.process.poll() is not None or time.monotonic() > limit:
                raise Failure(f"{name} did not start within {seconds:.0f} s: {failure_in(read(self.log))}")
            time.sleep(0.05)

    def close(self):
        end(self.process, patience=5)

    def resident_bytes(self):
        status = read(pathlib.Path(f"/proc/{self.process.pid}/status"))
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        if found is None:
            raise Failure("the server ended: " + last_lines(read(self.log)))
        return 1024 * int(found[1])

    def metric(self, name, **labels):
        """The sum of a metric's values that have these labels."""
        try:
            with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=10) as reply:
                text = reply.read().decode()
        except OSError as error:
            raise Failure(f"the server's /metrics does not answer: {error}") from error
        total = 0.0
        for found in re.finditer(rf"^{re.escape(name)}(?:\{{(.*)\}})? (\S+)$", text, re.M):
            if all(f'{key}="{value}"' in (found[1] or "") for key, value in labels.items()):
                total += float(found[2])
        return total

    def command(self, model, prompt, *options):
        """prompt: text, or a list of token ids."""
        given = [prompt] if isinstance(prompt, str) else ["--token-ids", ",".join(map(str, prompt))]
        return [str(self.binary), "generate", "--address", self.grpc, "--model", model, "--json", "--ignore-eos",
                "--temperature", "0", *options, *given]

    def call(self, command):
        """A client that ends within the row's time."""
        seconds = min(CALL_SECONDS, self.check.seconds_left())
        if seconds <= 0:
            raise Failure("the row's time is over")
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False,
                                  env=self.environment)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"no answer within {seconds:.0f} s to {' '.join(command[1:])[:200]}") from error

    def generate(self, model, prompt, backend, precision, *options):
        command = self.command(model, prompt, "--attention-backend", backend, "--precision", precision, *options)
        done = self.call(command)
        if done.returncode != 0:
            kind = Refusal if "FAILED_PRECONDITION" in done.stdout else Failure
            raise kind(f"{model} {backend} {precision}: {(done.stdout or done.stderr)[:400]}")
        return json.loads(done.stdout)
