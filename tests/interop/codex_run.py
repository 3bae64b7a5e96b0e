# SPDX-License-Identifier: Apache-2.0
"""The Codex CLI of npm, headless, with configurations that keep it on this machine: no update check, analytics, plugins or
apps. Its requests pass through recorder.py."""

import contextlib

import agents
from checks import Checks, holds, same, wait_until_idle
from codex_app_server import AppServer

PROGRAM = agents.PACKAGES / ".bin/codex"
CALL = {"name": "exec_command", "arguments": {"cmd": "echo wren"}}
PRINTED = "wren"
CONFIG = """
model = "{model}"
model_provider = "dunlin"
check_for_update_on_startup = false
project_doc_max_bytes = 0
{more}
[model_providers.dunlin]
name = "Dunlin"
base_url = "{url}/v1"
wire_api = "responses"
{provider}

[analytics]
enabled = false

[features]
apps = false
plugins = false
remote_plugin = false
{features}
"""
NO_RETRIES = "request_max_retries = 0\nstream_max_retries = 0"
# What leaves room for a conversation in 1,024 tokens: a prompt of one sentence, no tool but those of the thread.
SHORT = """
web_search = "disabled"
model_instructions_file = "{folder}/instructions.md"
include_environment_context = false
include_permissions_instructions = false
include_apps_instructions = false
tools.experimental_request_user_input.enabled = false
tools.update_plan.enabled = false
agents.enabled = false
skills.include_instructions = false
skills.bundled.enabled = false
"""
SHORT_FEATURES = "shell_tool = false\nunified_exec = false\ngoals = false\nview_image = false\n"
TOOL = {"type": "function", "name": "get_weather", "description": agents.WEATHER_DESCRIPTION,
        "inputSchema": agents.WEATHER_SCHEMA}
checks = Checks()
server = None


def home_of(name, model, more="", features="", provider=NO_RETRIES):
    home = agents.Home("codex-" + name, server.base_url)
    (home.folder / "instructions.md").write_text("You answer questions about Wrenmouth.")
    text = CONFIG.format(model=model, url=home.record.base_url, more=more.format(folder=home.folder), features=features,
                         provider=provider)
    (home.folder / "config.toml").write_text(text)
    return home


def conversation(name, tools):
    """Answers and calls of a thread with these tools, and the requests that it took."""
    with home_of(name, "demo", SHORT, SHORT_FEATURES) as home:
        with contextlib.closing(AppServer(PROGRAM, home, tools, agents.weather)) as app:
            answers = [app.turn(question) for question in agents.QUESTIONS]
        home.record.check_all_answered()
        return answers, app.calls, [each.body for each in home.record.posts("/v1/responses")]


def check_conversation(answers, calls, bodies):
    same([call["arguments"] for call in calls], [{"city": "Hamburg"}, {"city": "Lisbon"}], "calls")
    holds("sunny" in answers[0] and "sunny" in answers[1] and answers[2].strip(), f"answers are {answers}")
    same(len(bodies), 5, "requests")  # two for each question with a call
    results = {item["call_id"]: item["output"] for item in bodies[-1]["input"] if item["type"] == "function_call_output"}
    same(results, {call["callId"]: agents.weather(**call["arguments"]) for call in calls}, "results in the last request")


@checks.add("turns with a tool")
def turns():
    answers, calls, bodies = conversation("turns", [TOOL])
    check_conversation(answers, calls, bodies)


@checks.add("turns with a namespace's tool")
def turns_namespace():
    tool = {"type": "namespace", "name": "town", "description": "About towns", "tools": [TOOL]}
    answers, calls, bodies = conversation("namespace", [tool])
    check_conversation(answers, calls, bodies)
    same([tool["type"] for tool in bodies[0]["tools"]], ["namespace"], "types of tools")
    same([call["namespace"] for call in calls], ["town", "town"], "namespaces of calls")


def exec_command(home, *arguments):
    return home.run([PROGRAM, "exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access", *arguments],
                    CODEX_HOME=str(home.folder))


def items(lines, kind):
    return [line["item"] for line in lines if line["type"] == "item.completed" and line["item"]["type"] == kind]


@checks.add("exec and resume, its own prompt")
def own_prompt():
    with home_of("exec", "scripted") as home:
        lines = exec_command(home, "Print the name of a bird.")
        commands = items(lines, "command_execution")
        same([(each["aggregated_output"].strip(), each["exit_code"]) for each in commands], [(PRINTED, 0)])
        same([each["text"] for each in items(lines, "agent_message")], [agents.ANSWER])
        lines = exec_command(home, "resume", "--last", "And what is it?")
        same([each["text"] for each in items(lines, "agent_message")], [agents.ANSWER])
        home.record.check_all_answered()
        exchanges = home.record.posts("/v1/responses")
        same([each.headers["x-dunlin-ignored"] for each in exchanges], ["tools[web_search]"] * 3, "left out")
        bodies = [each.body for each in exchanges]
        kinds = {tool["type"] for tool in bodies[0]["tools"]}
        holds({"function", "namespace", "web_search"} <= kinds, f"types of tools are {kinds}")
        outputs = [item["output"] for item in bodies[-1]["input"] if item["type"] == "function_call_output"]
        holds(len(outputs) == 1 and PRINTED in outputs[0], f"results are {outputs}")


@checks.add("a WebSocket is refused once")
def websocket():
    with home_of("websocket", "scripted", provider="supports_websockets = true") as home:
        lines = exec_command(home, "Print the name of a bird.")
        same([each["text"] for each in items(lines, "agent_message")], [agents.ANSWER])
        same([each.status for each in home.record.exchanges if each.method == "GET"], [426], "statuses of WebSockets")
        same({each.status for each in home.record.posts("/v1/responses")}, {200})


@checks.add("context overflow")
def overflow():
    with home_of("overflow", "demo") as home:  # whose own prompt has ten times the tokens
        lines = exec_command(home, "Print the name of a bird.")
        failures = [line["error"]["message"] for line in lines if line["type"] == "turn.failed"]
        holds(len(failures) == 1 and "context window" in failures[0], f"failures are {failures}")
        same([each.status for each in home.record.posts("/v1/responses")], [400])


@checks.add("the server is idle afterwards")
def idle():
    wait_until_idle(server.base_url)


with agents.server("codex", CALL) as server:
    checks.run()
