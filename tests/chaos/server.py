# SPDX-License-Identifier: Apache-2.0
"""A `dunlin serve` of the demo model in a session of its own, and what a fault may leave behind: files, ports, processes,
descriptors."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WAIT_S = 60  # for any state; nothing here is a bound on time


def wait_until(condition, seconds=WAIT_S):
    """Seconds until condition() holds; None if it does not."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        if condition():
            return time.monotonic() - begin
        time.sleep(0.02)
    return None


def processes_of(session):
    """Process ids of a session, zombies left out."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(") ", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


class Server:
    """Runs until stop(), kill() or its own end. settings: of --set. wrap: a command before the binary. models: besides the demo
    model."""

    def __init__(self, binary, settings=(), wrap=(), log=None, tls=None, models=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dunlin_chaos_"))
        self.model = self.folder / "demo"
        shutil.copytree(ROOT / "models" / "demo", self.model)
        self.config = self.folder / "config.json"
        self.config.write_text(json.dumps({
            "listen": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"},
            "access": {"admin_without_keys": True},
            "models": [{"name": "demo", "path": str(self.model), "precisions": ["bf16", "fp32"],
                        "kv_cache": {"memory_bytes": 16 << 20}}, *models]}))
        self.binary, self.settings, self.wrap, self.tls = binary, list(settings), list(wrap), None
        if tls:
            self.tls = ssl.create_default_context(cafile=tls)
        self.temporary = self.folder / "tmp"  # its temporary files
        self.temporary.mkdir()
        self.log_path = self.folder / "log" if log is None else log
        self.start()

    def start(self, addresses=()):
        """Also again, on the same addresses."""
        command = [*self.wrap, self.binary, "serve", "--config", self.config]
        for setting in [*self.settings, *addresses]:
            command += ["--set", setting]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True,
                                            env={**os.environ, "TMPDIR": str(self.temporary)})
        ready = self.process.stdout.readline()
        if not ready.startswith("READY"):
            raise RuntimeError(f"the server does not start: {self.log()[-1000:]}")
        self.grpc, self.http = (part.split("=", 1)[1] for part in ready.split()[1:3])

    def log(self):
        return self.log_path.read_text(errors="replace")

    def connect(self, timeout=WAIT_S):
        host, port = self.http.rsplit(":", 1)
        if self.tls:
            return http.client.HTTPSConnection(host, int(port), timeout=timeout, context=self.tls)
        return http.client.HTTPConnection(host, int(port), timeout=timeout)

    def get(self, path, timeout=WAIT_S):
        """(status, body); (0, reason) where there is no answer."""
        connection = self.connect(timeout)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as problem:
            return 0, type(problem).__name__
        finally:
            connection.close()

    def is_ready(self):
        return self.get("/readyz", timeout=2)[0] == 200

    def metric(self, name):
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name):
                return float(line.rsplit(" ", 1)[1])
        return None

    def run(self, *arguments, timeout=WAIT_S):
        """A client command of the binary."""
        return subprocess.run([self.binary, *arguments], capture_output=True, text=True, timeout=timeout, check=False)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def held(self):
        """What requests of all models hold: sequences that run, pages in use."""
        lines = self.get("/metrics")[1].splitlines()
        return tuple(sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name}{{model_name="))
                     for name in ("vllm:num_requests_running", "dunlin_kv_pages_used"))

    def wait_idle(self):
        return wait_until(lambda: self.held() == (0.0, 0.0))

    def threads(self):
        """Of the process: name to thread ids."""
        names = {}
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            names.setdefault((task / "comm").read_text().strip(), []).append(int(task.name))
        return names

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return "does not end"

    def left_behind(self, before):
        """Of a server that has ended, what is still there, in words."""
        session = self.process.pid
        left = []
        if wait_until(lambda: not processes_of(session), 10) is None:
            left.append(f"{len(processes_of(session))} processes")
        files = {str(path) for path in self.temporary.iterdir()} | set(shared_files()) - set(before)
        if files:
            left.append("files " + " ".join(sorted(files)))
        if self.get("/healthz", timeout=2)[0] != 0:
            left.append("its port")
        return ", ".join(left) or "nothing"

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def shared_files():
    """Shared memory of that name."""
    return [str(path) for path in pathlib.Path("/dev/shm").glob("*dunlin*")]
