# SPDX-License-Identifier: Apache-2.0
"""opencode of npm, headless, with a configuration that keeps it on this machine: no update, no sharing, no list of models.
Its requests pass through recorder.py."""

import json
import pathlib
import sys

import agents
from checks import Checks, holds, same, wait_until_idle

# The package of the program itself: the package opencode-ai names one of these for each machine, and its script copies it.
PROGRAM = agents.PACKAGES / "opencode-linux-x64-baseline/bin/opencode"
CALL = {"name": "read", "arguments": {"filePath": "wren.md"}}
CONTENT = "The wren is brown."
OFFLINE = {"OPENCODE_DISABLE_" + name: "1" for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE",
                                                         "DEFAULT_PLUGINS", "PROJECT_CONFIG")}
MCP = pathlib.Path(__file__).with_name("weather_mcp.py")
ONLY_WEATHER = {"*": False, "get_weather": True}
# What leaves room for a conversation in 1,024 tokens.
SHORT = {"mcp": {"get": {"type": "local", "command": [sys.executable, str(MCP)]}}, "tools": ONLY_WEATHER,
         "agent": {"build": {"prompt": "You answer questions about Wrenmouth.", "tools": ONLY_WEATHER}}}
OUTPUT = 32000  # as opencode asks for where a model's limit is unknown: more than the context has left
checks = Checks()
server = None


def home_of(name, context, **more):
    home = agents.Home("opencode-" + name, server.base_url)
    models = {each: {"name": each, "limit": {"context": context, "output": OUTPUT}} for each in ("demo", "scripted")}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Dunlin", "models": models,
                "options": {"baseURL": home.record.base_url + "/v1"}}
    config = {"autoupdate": False, "share": "disabled", "snapshot": False, "enabled_providers": ["dunlin"],
              "provider": {"dunlin": provider}, **more}
    (home.folder / "opencode.json").write_text(json.dumps(config))
    keep_from_installing(home)
    return home


def keep_from_installing(home):
    """Without these it installs its plugins' interface, which nothing here uses, in the background."""
    dependencies = {"dependencies": {"@opencode-ai/plugin": "*"}}
    folder = home.folder / "config/opencode"
    (folder / "node_modules").mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps(dependencies))
    (folder / "package-lock.json").write_text(json.dumps({"lockfileVersion": 3, "packages": {"": dependencies}}))


def ask(home, model, *arguments):
    """Parts of the answer by their type."""
    lines = home.run([PROGRAM, "run", "--pure", "--format", "json", "--auto", "--model", "dunlin/" + model, *arguments],
                     OPENCODE_CONFIG=str(home.folder / "opencode.json"), PYTHONDONTWRITEBYTECODE="1", **OFFLINE)
    parts = {}
    for line in lines:
        parts.setdefault(line["type"], []).append(line.get("part") or line.get("error"))
    return parts


def calls(parts):
    states = [part["state"] for part in parts.get("tool_use", [])]
    return [(state["status"], state["input"], state.get("output", "").strip()) for state in states]


def text(parts):
    return "".join(part["text"] for part in parts.get("text", []))


def results(home):
    """Results of tools in the last request."""
    return [message["content"] for message in home.record.posts("/v1/chat/completions")[-1].body["messages"]
            if message["role"] == "tool"]


@checks.add("turns with a tool")
def turns():
    with home_of("turns", 65536, **SHORT) as home:
        told = []
        for at, question in enumerate(agents.QUESTIONS[:2]):
            parts = ask(home, "demo", *(["--continue"] if at else []), question)
            [(status, arguments, output)] = calls(parts)
            same((status, output), ("completed", agents.weather(**arguments)), "call")
            holds("sunny" in text(parts), f"the answer is {text(parts)!r}")
            told.append(output)
        home.record.check_all_answered()
        same(results(home), told, "results in the last request")


@checks.add("run and continue, its own prompt")
def own_prompt():
    with home_of("whole", 65536) as home:
        (home.work / "wren.md").write_text(CONTENT)
        parts = ask(home, "scripted", "What colour is the wren?")
        [(status, arguments, output)] = calls(parts)
        same((status, arguments), ("completed", CALL["arguments"]))
        holds(CONTENT in output, f"the file is {output!r}")
        same(text(parts), agents.ANSWER)
        same(text(ask(home, "scripted", "--continue", "And what is it?")), agents.ANSWER)
        home.record.check_all_answered()
        same([each.strip() for each in results(home)], [output], "results in the last request")
        asked = {each.body["max_tokens"] for each in home.record.posts("/v1/chat/completions")}
        holds(OUTPUT in asked, f"max_tokens are {asked}")


@checks.add("context overflow")
def overflow():
    with home_of("overflow", 65536) as home:  # opencode believes in a context that the demo model does not have
        parts = ask(home, "demo", "Print the name of a bird.")
        same({error["name"] for error in parts["error"]}, {"ContextOverflowError"}, "errors")


@checks.add("the server is idle afterwards")
def idle():
    wait_until_idle(server.base_url)


with agents.server("opencode", CALL) as server:
    checks.run()
