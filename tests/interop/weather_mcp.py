# SPDX-License-Identifier: Apache-2.0
"""A server of the Model Context Protocol on stdin and stdout with one tool, `weather`. A client that knows it as `get` calls
the tool `get_weather`."""

import json
import sys

import agents


def result_of(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "get", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": "weather", "description": agents.WEATHER_DESCRIPTION,
                           "inputSchema": agents.WEATHER_SCHEMA}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": agents.weather(**params["arguments"])}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result_of(message["method"], message.get("params"))}
        print(json.dumps(answer), flush=True)
