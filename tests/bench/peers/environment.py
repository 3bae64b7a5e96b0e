# SPDX-License-Identifier: Apache-2.0
"""The peers' virtual environment: pinned versions, each peer installed separately, so that one may fail.

Standard library only. constraints.txt pins everything, including transitive dependencies.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CONSTRAINTS = HERE / "constraints.txt"

# Peer -> packages; "" is what the weights need. llama.cpp is built here, for this processor.
PACKAGES = {
    "": ["numpy", "gguf"],
    "torch": ["torch", "transformers"],
    "llama_cpp": ["llama-cpp-python"],
    "ctranslate2": ["ctranslate2", "transformers", "torch"],
    "onnxruntime": ["onnxruntime", "onnx"],
}
FROM_SOURCE = ["llama-cpp-python"]
LLAMA_CPP_CMAKE = ("-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF "
                   "-DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF")


class Environment:
    def __init__(self, directory, log):
        self.directory = directory / "venv"
        self.python = self.directory / "bin" / "python"
        self.log = log  # path of pip's output

    def _run(self, command, seconds, **more):
        environment = dict(os.environ, CMAKE_ARGS=LLAMA_CPP_CMAKE, PIP_DISABLE_PIP_VERSION_CHECK="1", **more)
        with open(self.log, "ab") as stream:
            return subprocess.run(command, stdout=stream, stderr=stream, timeout=seconds, env=environment,
                                  check=False).returncode

    def install(self, peer, seconds):
        """None, or why the peer could not be installed."""
        try:
            if not self.python.exists():
                self._run([sys.executable, "-m", "venv", str(self.directory)], 120)
            packages = PACKAGES[peer]
            command = [str(self.python), "-m", "pip", "install", "-c", str(CONSTRAINTS)]
            for name in packages:
                command += ["--no-binary", name] if name in FROM_SOURCE else []
            if self.missing(packages) and self._run(command + packages, seconds) != 0:
                return f"pip install {' '.join(packages)} failed, see {self.log.name}"
        except subprocess.TimeoutExpired:
            return f"pip install took longer than {seconds:.0f} s"
        missing = self.missing(packages)
        return f"not installed: {', '.join(missing)}" if missing else None

    def versions(self, packages):
        """{package: version} of the installed packages."""
        script = ("import importlib.metadata as m, json, sys\nout = {}\n"
                  "for name in sys.argv[1:]:\n"
                  "    try: out[name] = m.version(name)\n"
                  "    except m.PackageNotFoundError: pass\n"
                  "print(json.dumps(out))")
        done = subprocess.run([str(self.python), "-c", script, *packages], capture_output=True, text=True, timeout=60,
                              check=True)
        return json.loads(done.stdout)

    def missing(self, packages):
        found, wanted = self.versions(packages), pinned()
        return [name for name in packages if found.get(name, "").split("+")[0] != wanted[name]]


def pinned():
    """{package: version} of constraints.txt."""
    lines = (line.split("#")[0].strip() for line in CONSTRAINTS.read_text().splitlines())
    return dict(line.split("==") for line in lines if line)
