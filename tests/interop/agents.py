# SPDX-License-Identifier: Apache-2.0
"""What codex_run.py and opencode_run.py share: a server with models that coding agents can work with, and how an agent is run.

`demo` is the demo model, greedy: agents name no temperature. It calls the tools that it was trained on, but its context of
1,024 tokens holds no agent's own prompt. `scripted` (scripted_model.py) has room for that, and calls a tool of the agent.
"""

import json
import os
import pathlib
import shutil
import subprocess

import recorder
import scripted_model
import serving
from checks import FOLDER, MODEL_DIR, holds

PACKAGES = pathlib.Path(os.environ.get("INTEROP_PACKAGES", "")) / "node_modules"
RUN_S = 50
# Agents write the date and their folder into a prompt. The demo model calls the tool in any case, but may not copy the city.
QUESTIONS = ("What is the weather in Hamburg?", "What is the weather in Lisbon?", "What does the curlew eat?")
ANSWER = "It is a bird."  # of the scripted model


def weather(city):
    """What the tool `get_weather` answers."""
    return json.dumps({"city": city, "sky": "sunny", "temperature_c": 21})


WEATHER_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER_DESCRIPTION = "Get the weather in a city"


def fresh(name):
    """An empty folder of this program."""
    folder = pathlib.Path(FOLDER) / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def server(name, call):
    """Context of a server of both models; call is the scripted model's."""
    folder = fresh(name + "-server")
    shutil.copytree(MODEL_DIR, folder / "demo")
    generation = folder / "demo/generation_config.json"
    generation.write_text(json.dumps({**json.loads(generation.read_text()), "do_sample": False}))
    scripted_model.write(folder / "scripted", MODEL_DIR, call, ANSWER)
    models = [serving.model(each, folder / each) for each in ("demo", "scripted")]
    return serving.serve(os.environ["INTEROP_BINARY"], folder, models)


class Home:
    """Folders of a client's files and work, and the proxy between it and the server."""

    def __init__(self, name, server_url):
        self.folder, self.record = fresh(name), recorder.Recorder(server_url)
        self.work = self.folder / "work"
        self.work.mkdir()

    def __enter__(self):
        self.record.__enter__()
        return self

    def __exit__(self, *error):
        self.record.__exit__(*error)

    def environment(self, **more):
        return {**self.record.environment(self.folder), **more}

    def run(self, command, **environment):
        """JSON lines of the program's output."""
        done = subprocess.run(command, cwd=self.work, env=self.environment(**environment), capture_output=True, text=True,
                              timeout=RUN_S, stdin=subprocess.DEVNULL)
        (self.folder / "stderr.log").write_text(done.stderr)
        (self.folder / "stdout.log").write_text(done.stdout)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        holds(lines, f"exit status {done.returncode}, no output; {done.stderr[-500:]}")
        return lines
