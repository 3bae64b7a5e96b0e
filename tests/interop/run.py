#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clients that people have against `dunlin serve` and prints a table of client and check. Each client is installed
into an environment of its own, which is kept under --work and made again when what it is made of changes.

Usage: run.py BINARY [--full] [--only CLIENT...] [--third N --changed FILE] [--allow-missing] [--work DIR], as `make interop`
and `make interop-full` call it. --third: every third client, N says from which on, those whose own program or packages changed, and
one of each changed part of the server; FILE has the changed paths, a line each. Exit status 1 if a check fails, if a client cannot be installed (unless --allow-missing), or
if the server is not idle afterwards or does not end with status 0. DIR/failed_clients names the clients that failed, a line
each. Standard library only.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import checks
import serving

HERE = pathlib.Path(__file__).resolve().parent
MODEL_DIR = serving.ROOT / "models/demo"
INSTALL_S = 900

# program: in this folder; its packages are requirements/PROGRAM.txt, requirements/PROGRAM/package-lock.json, or its crate's
# Cargo.lock.
# slow: only with --full, as it takes gigabytes, or a minute. limit_s: of the whole program. tests: a pattern of the paths that
# it tests, beside its own program, packages and what all share.
Client = collections.namedtuple("Client", "name program slow limit_s tests")
OPENAI = "server/fronts/openai/"
KSERVE = "server/fronts/kserve/"
OLLAMA = "server/fronts/ollama/"
VLLM = "server/(fronts/vllm|transport/zmq)/"
SMG = r"server/fronts/(smg_worker|openai)/|README\.md"
CLIENTS = [
    Client("openai", "openai_python.py", False, 180, OPENAI),
    Client("anthropic", "anthropic_python.py", False, 120, OPENAI),
    Client("openai-npm", "node/openai_node.mjs", False, 120, OPENAI),
    Client("langchain-openai", "langchain_python.py", False, 120, OPENAI),
    Client("ai-sdk", "node/ai_sdk_node.mjs", False, 120, OPENAI),
    Client("litellm", "litellm_python.py", False, 120, OPENAI),
    Client("cohere", "cohere_python.py", False, 60, OPENAI),
    Client("ollama", "ollama_python.py", False, 120, OLLAMA),
    Client("claude-shapes", "claude_code_shapes.py", False, 60, OPENAI),
    Client("codex", "codex_run.py", False, 180, OPENAI),
    Client("opencode", "opencode_run.py", False, 240, OPENAI),
    Client("tritonclient", "triton_python.py", False, 180, KSERVE),
    Client("tritonclient-http", "triton_http_python.py", False, 120, KSERVE),
    Client("smg", "smg_router.py", False, 360, SMG),
    Client("kubernetes-validate", "kubernetes_manifests.py", False, 90, "deploy/kubernetes/"),
    Client("vllm-proto", "vllm_client/src/main.rs", False, 120, VLLM),
    Client("dynamo", "dynamo_run.py", False, 240, VLLM),
    Client("guidellm", "guidellm_run.py", True, 240, OPENAI),
    Client("aiperf", "aiperf_run.py", True, 300, OPENAI),
    Client("smg-idle", "smg_idle.py", True, 780, SMG),
]


# Modules of this folder that every client runs with.
OF_ALL_CLIENTS = {"run.py", "serving.py", "checks.py"}


class CannotInstall(Exception):
    pass


def install(command, folder, **more):
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_S, **more)
    except FileNotFoundError as error:
        raise CannotInstall(f"{error.filename} is not installed") from error
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        shutil.rmtree(folder, ignore_errors=True)
        lines = (error.stderr or str(error)).strip().splitlines()
        reason = next((line for line in lines if "error" in line.lower()), lines[-1])
        raise CannotInstall(f"{pathlib.Path(command[0]).name}: {reason}") from error


def kept(folder, made_of):
    """Whether the environment there is complete and of these contents."""
    stamp = folder / "made_of"
    return stamp.exists() and stamp.read_text() == made_of


def python_command(client, work):
    """Of a Python with the program's packages; of this one where it has none, or npm's."""
    packages = HERE / "requirements" / pathlib.Path(client.program).stem
    requirements = packages.with_suffix(".txt")
    folder = work / client.name
    if packages.is_dir():
        install_npm(packages, folder)
    if not requirements.exists():
        return [sys.executable, HERE / client.program]
    made_of = f"{sys.executable} {sys.version}\n{requirements.read_text()}"
    if not kept(folder, made_of):
        shutil.rmtree(folder, ignore_errors=True)
        install([sys.executable, "-m", "venv", folder], folder)
        options = ["--no-deps"] if "# --no-deps" in requirements.read_text() else []
        options += ["--quiet", "--no-compile", "-r", requirements]
        install([folder / "bin/python", "-m", "pip", "install", *options], folder)
        (folder / "made_of").write_text(made_of)
    return [folder / "bin/python", HERE / client.program]


def install_npm(packages, folder):
    """Scripts of packages are not run: they could download what no lock file has."""
    made_of = (packages / "package-lock.json").read_text()
    if not kept(folder, made_of):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(packages, folder)
        install(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder, cwd=folder)
        (folder / "made_of").write_text(made_of)


def node_command(client, work):
    folder, program = work / client.name, HERE / client.program
    install_npm(HERE / "requirements" / program.stem, folder)
    for name in (program, program.parent / "checks.mjs"):  # packages are looked for beside the program
        shutil.copy(name, folder)
    return ["node", folder / program.name]


def cargo_command(client, work):
    crate = (HERE / client.program).parents[1]
    install(["cargo", "build", "--quiet", "--locked", "--manifest-path", crate / "Cargo.toml", "--target-dir",
             work / client.name], work / client.name)
    return [work / client.name / "debug/vllm-client"]


COMMANDS = {".py": python_command, ".mjs": node_command, ".rs": cargo_command}


def command_of(client, work):
    return COMMANDS[pathlib.Path(client.program).suffix](client, work)


def own_files(client):
    """The client's program and the modules of this folder that it imports, but for those of all clients."""
    files, unread = set(), [client.program]
    while unread:
        name = unread.pop()
        files.add(name)
        imported = {f"{module}.py" for module in re.findall(r"^(?:import|from) (\w+)", (HERE / name).read_text(encoding="utf-8"), re.M)}
        unread += [module for module in imported - files - OF_ALL_CLIENTS if (HERE / module).exists()]
    return files


def program_changed(client, path):
    name = path.removeprefix("tests/interop/")
    program = pathlib.PurePath(client.program)
    folder = program.parts[0] if program.suffix == ".rs" else f"requirements/{program.stem}"
    return name != path and (name in own_files(client) or name.startswith((f"{folder}/", f"{folder}.txt")))


def third_of(clients, turn, changed):
    """Every third client, those whose program changed, and one of those that test a changed part of the server."""
    chosen = [client for place, client in enumerate(clients)
              if place % 3 == turn % 3 or any(program_changed(client, path) for path in changed)]
    for part in {client.tests: None for client in clients if any(re.match(client.tests, path) for path in changed)}:
        of_part = [client for client in clients if client.tests == part]
        if not set(of_part) & set(chosen):
            chosen.append(of_part[turn % len(of_part)])
    return [client for client in clients if client in chosen]


def models():
    """What the server has: the demo model, twice, an encoder and a reranker."""
    encoders = serving.ROOT / "tests/golden/encoders"
    return [serving.model("demo", MODEL_DIR, event_batches=1000, events_endpoint="tcp://127.0.0.1:0"),
            {**serving.model(checks.SMALL, MODEL_DIR), "max_context_tokens": 256},
            *({"name": name, "path": str(encoders / folder), "device": "cpu", "precisions": ["fp32"]}
              for name, folder in (("encoder", "bert_sentence"), (checks.RERANKER, "bert_rerank")))]


def run_client(client, server, work):
    """Rows (check, error) of one client; its error output is kept in CLIENT.log."""
    command = [*command_of(client, work), server.base_url, "demo", "encoder", MODEL_DIR, work]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
                   "INTEROP_GRPC": server.grpc, "INTEROP_BINARY": server.binary, "INTEROP_PACKAGES": str(work / client.name)}
    log = work / f"{client.name}.log"
    with open(log, "wb") as errors:
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, timeout=client.limit_s,
                                  env=environment)
            output, end = done.stdout, done.returncode
        except subprocess.TimeoutExpired as late:
            output, end = late.stdout or b"", f"none within {client.limit_s} s"
    lines = [json.loads(line) for line in output.decode().splitlines() if line.startswith("{")]
    rows = [(line["check"], line["error"]) for line in lines]
    if end != 0 or not rows:
        rows.append(("the program", f"exit status is {end}; see {log}"))
    return rows


def main(arguments=None, clients=tuple(CLIENTS)):
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--full", action="store_true", help="the slow clients, too")
    parser.add_argument("--only", nargs="*", choices=[client.name for client in clients])
    parser.add_argument("--third", type=int, metavar="N", help="every third client, and what changed asks for")
    parser.add_argument("--changed", type=pathlib.Path, metavar="FILE", help="the changed paths, a line each")
    parser.add_argument("--allow-missing", action="store_true", help="a client that cannot be installed is no failure")
    parser.add_argument("--work", type=pathlib.Path, default=serving.ROOT / "build/interop")
    options = parser.parse_args(arguments)
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    (options.work / "failed_clients").unlink(missing_ok=True)
    chosen = [client for client in clients
              if (client.name in options.only if options.only else options.full or not client.slow)]
    if options.third is not None and not options.only:
        chosen = third_of(chosen, options.third, options.changed.read_text(encoding="utf-8").splitlines())
    failed = total = 0
    failures = []  # rows, repeated at the end, where a reader of the last lines sees them
    failed_clients = {}

    def row(client, check, outcome):
        line = f"{client:18}{check:36}{outcome}"
        if outcome.startswith("FAILED"):
            failures.append(line)
            failed_clients[client] = True
        print(line, flush=True)

    row("client", "check", "outcome")
    with serving.serve(options.binary.resolve(), options.work, models()) as server:
        for client in chosen:
            started = time.monotonic()
            try:
                command_of(client, options.work)
                row(client.name, "install", f"ok, {time.monotonic() - started:.0f} s")
            except CannotInstall as error:
                row(client.name, "install", f"{'missing' if options.allow_missing else 'FAILED'}: {error}")
                failed += 0 if options.allow_missing else 1
                continue
            started = time.monotonic()
            for check, error in run_client(client, server, options.work):
                row(client.name, check, "ok" if error is None else f"FAILED: {error[:600]}")
                total, failed = total + 1, failed + (error is not None)
            row(client.name, "in all", f"{time.monotonic() - started:.0f} s")
        checks.wait_until_idle(server.base_url)
    (options.work / "failed_clients").write_text("".join(f"{name}\n" for name in failed_clients))
    print(*failures, sep="\n", end="\n" if failures else "")
    print(f"{total} checks of {len(chosen)} clients, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
