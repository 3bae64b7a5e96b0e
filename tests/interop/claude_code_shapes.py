# SPDX-License-Identifier: Apache-2.0
"""Requests of the shapes that Claude Code sends, with values of our own: its package is not installed. Standard library only.

Each check is a kind of request of a session: the first one with everything that a client may announce, a history of blocks
that only Anthropic's own servers make, the count of a prompt's tokens, a prompt that is too long."""

import http.client
import json
import re
import urllib.parse

from checks import BASE_URL, MODEL, SMALL, Checks, holds, same

HEADERS = {"content-type": "application/json", "authorization": "Bearer unused", "anthropic-version": "2023-06-01",
           "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
           "anthropic-dangerous-direct-browser-access": "true", "x-app": "cli", "x-stainless-lang": "js",
           "x-stainless-retry-count": "0", "x-stainless-timeout": "600"}
CACHED = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
SCHEMA = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["city"],
          "additionalProperties": False, "properties": {"city": {"type": "string"}}}
WEATHER = {"name": "get_weather", "description": "Get the weather in a city", "input_schema": SCHEMA}
SERVER_TOOLS = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8, "allowed_domains": ["example.org"]},
                {"type": "web_fetch_20250910", "name": "web_fetch", "citations": {"enabled": True}},
                {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}]
USER_ID = json.dumps({"device_id": "0" * 64, "account_uuid": "", "session_id": "a-session"})
checks = Checks()


def text(words, **more):
    return {"type": "text", "text": words, **more}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def send(body, path="/v1/messages?beta=true"):
    """Status and text of the answer."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(BASE_URL).netloc, timeout=30)
    try:
        connection.request("POST", path, json.dumps({"model": MODEL, **body}), HEADERS)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def answered(body, path="/v1/messages?beta=true"):
    status, answer = send(body, path)
    holds(status == 200, f"{status}: {answer[:400]}")
    return answer


def refused(body):
    status, answer = send(body)
    holds(status == 400, f"{status}: {answer[:400]}")
    return json.loads(answer)["error"]["message"]


def message(body):
    return json.loads(answered({"max_tokens": 48, "temperature": 0, **body}))


def first_request(**more):
    """As a session begins: everything that a client may announce."""
    return {"max_tokens": 32000, "stream": True, "temperature": 1, "metadata": {"user_id": USER_ID},
            "system": [text("x-client-header: cc_version=1; cc_entrypoint=cli;"), text("You answer.", **CACHED)],
            "thinking": {"type": "enabled", "budget_tokens": 31999}, "output_config": {"effort": "high"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "tools": [{**WEATHER, "eager_input_streaming": True},
                      {**WEATHER, "name": "get_tide", "type": "custom", **CACHED}],
            "messages": [user(text("<reminder>\nNothing to do.\n</reminder>"),
                              text("What does the curlew eat?", **CACHED))],
            **more}


@checks.add("the first request")
def first():
    stream = answered(first_request())
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    same((kinds[0], kinds[-2], kinds[-1]), ("message_start", "message_delta", "message_stop"))
    holds("citations" not in stream, "a text without citations names them")
    adaptive = first_request(thinking={"type": "adaptive", "display": "summarized"}, stream=False)
    same(json.loads(answered(adaptive))["type"], "message")


@checks.add("a probe of one token")
def probe():
    answer = message({"max_tokens": 1, "messages": [{"role": "user", "content": "quota"}], "metadata": {"user_id": USER_ID}})
    same((answer["stop_reason"], answer["usage"]["output_tokens"]), ("max_tokens", 1))


@checks.add("system messages among the others")
def system_messages():
    told = {"role": "system", "content": [text("The date has changed.", **CACHED)]}
    for at in range(4):
        messages = [user(text("Hello")), assistant(text("Hello!")), user(text("What does the curlew eat?"))]
        messages.insert(at, told)
        body = {"system": [text("You answer.")], "messages": messages}
        counted = json.loads(answered(body, "/v1/messages/count_tokens?beta=true"))["input_tokens"]
        used = message(body)["usage"]
        same(counted, used["input_tokens"] + used["cache_read_input_tokens"], f"tokens with the message at {at}")


@checks.add("server tools")
def server_tools():
    asked = {"messages": [user(text("What is the weather in Lisbon?"))]}
    same(message({**asked, "tools": [*SERVER_TOOLS, WEATHER]})["content"][-1]["input"], {"city": "Lisbon"}, "call")
    counts = [json.loads(answered({**asked, "tools": tools}, "/v1/messages/count_tokens?beta=true"))["input_tokens"]
              for tools in ([WEATHER], [*SERVER_TOOLS, WEATHER])]
    same(counts[0], counts[1], "tokens of the prompt with and without tools that are left out")
    holds(message({**asked, "tools": SERVER_TOOLS})["content"], "no answer with server tools alone")
    holds("web_search" in refused({**asked, "max_tokens": 9, "tools": [*SERVER_TOOLS, WEATHER],
                                   "tool_choice": {"type": "tool", "name": "web_search"}}), "the tool is not named")


@checks.add("a history of all kinds of block")
def history():
    found = {"type": "web_search_result", "title": "A page", "url": "https://example.org/",
             "encrypted_content": "EqgfCioIARgB", "page_age": None}
    tool_names = [{"type": "tool_reference", "tool_name": "get_weather"}]
    messages = [
        user(text("Search.")),
        assistant({"type": "thinking", "thinking": "I search.", "signature": "EuYBCkQ="},
                  {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"},
                  {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "curlew"}},
                  {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [found]},
                  text("A page says so.", citations=None),
                  {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Lisbon"},
                   "caller": {"type": "direct"}, **CACHED}),
        user({"type": "tool_result", "tool_use_id": "toolu_1", "is_error": False,
              "content": [text('{"sky": "sunny"}')], **CACHED}),
        assistant({"type": "server_tool_use", "id": "srvtoolu_2", "name": "tool_search_tool_regex",
                   "input": {"query": "tide"}},
                  {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_2",
                   "content": {"type": "tool_search_tool_search_result", "tool_references": tool_names}},
                  {"type": "tool_use", "id": "toolu_2", "name": "ToolSearch", "input": {"query": "weather"}}),
        user({"type": "tool_result", "tool_use_id": "toolu_2", "content": tool_names}, text("What does the curlew eat?")),
    ]
    body = {"messages": messages, "tools": [WEATHER, *SERVER_TOOLS]}
    counted = json.loads(answered(body, "/v1/messages/count_tokens?beta=true"))["input_tokens"]
    used = message(body)["usage"]
    same(counted, used["input_tokens"] + used["cache_read_input_tokens"])


@checks.add("other members of messages")
def other_members():
    messages = [{**user(text("Hello")), "id": None, "name": None},
                {**assistant(text("Hello!")), "refusal": None, "stop_reason": "end_turn", "usage": {"output_tokens": 3}},
                user(text("What does the curlew eat?"))]
    plain = [{"role": each["role"], "content": each["content"]} for each in messages]
    same(message({"messages": messages})["content"], message({"messages": plain})["content"])


@checks.add("a prompt that is too long")
def too_long():
    told = refused({"model": SMALL, "max_tokens": 32000, "messages": [user(text("word " * 400))]})
    counts = re.search(r"prompt is too long: (\d+) tokens > (\d+) maximum", told)
    holds(counts and int(counts[1]) > int(counts[2]), told)


checks.run()
