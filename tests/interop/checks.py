# SPDX-License-Identifier: Apache-2.0
"""What the programs of this folder share: checks run in order, each one's outcome is a JSON line on stdout.

A program makes `Checks()`, decorates functions with `@checks.add("name")`, and ends with `checks.run()`. A check fails
by an exception, or by taking longer than LIMIT_S. Standard library only. The arguments of a program:

    BASE_URL   http://127.0.0.1:PORT
    MODEL      the name of the demo model
    ENCODER    the name of a model that makes embeddings
    MODEL_DIR  the demo model's directory, for clients that count tokens themselves
    FOLDER     where the program may write
"""

import asyncio
import inspect
import json
import signal
import sys
import time
import traceback
import urllib.request

LIMIT_S = 60
BASE_URL, MODEL, ENCODER, MODEL_DIR, FOLDER = (sys.argv[1:] + [""] * 5)[:5]
RERANKER = "reranker"  # the name of the model that scores documents
SMALL = "small"  # the name of the demo model with a context of 256 tokens
SERVED = (MODEL, SMALL, ENCODER, RERANKER)
METRICS_S = 10  # within which the server must have released what a client left

# What the demo model knows.
QUESTION = "What does the curlew eat?"
WEATHER_QUESTION = "What is the weather in Wrenmouth today?"
WEATHER_TOOL = {
    "name": "get_weather",
    "description": "The weather of a city on a day",
    "parameters": {"type": "object", "required": ["city", "day"], "additionalProperties": False,
                   "properties": {"city": {"type": "string"}, "day": {"type": "string"}}},
}
OPENAI_TOOL = {"type": "function", "function": WEATHER_TOOL}


def same(actual, expected, what="value"):
    if actual != expected:
        raise AssertionError(f"{what} is {actual!r}, expected {expected!r}")


def holds(condition, what):
    if not condition:
        raise AssertionError(what)


def metric(name, base_url=BASE_URL):
    """The sum of a series over its labels, from the server's /metrics."""
    with urllib.request.urlopen(base_url + "/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)


def wait_until_idle(base_url=BASE_URL):
    """Waits until the server runs nothing and holds no page of a request."""
    end = time.monotonic() + METRICS_S
    while time.monotonic() < end:
        running, pages = metric("vllm:num_requests_running", base_url), metric("dunlin_kv_pages_used", base_url)
        if running + pages == 0:
            return
        time.sleep(0.02)
    raise AssertionError(f"{running:.0f} requests, {pages:.0f} pages of them {METRICS_S} s after their clients left")


class Checks:
    def __init__(self):
        self.rows = []

    def add(self, name):
        def keep(function):
            self.rows.append((name, function))
            return function
        return keep

    def run(self):
        def late(*_):
            raise TimeoutError(f"took longer than {LIMIT_S} s")
        signal.signal(signal.SIGALRM, late)
        for name, function in self.rows:
            signal.alarm(LIMIT_S)
            try:
                asyncio.run(function()) if inspect.iscoroutinefunction(function) else function()
                detail = None
            except Exception as error:  # any failure of a client is the outcome of its check
                detail = f"{type(error).__name__}: {error}"
                traceback.print_exc()
            signal.alarm(0)
            print(json.dumps({"check": name, "error": detail}), flush=True)
