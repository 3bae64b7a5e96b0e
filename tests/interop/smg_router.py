# SPDX-License-Identifier: Apache-2.0
"""smg as it comes from PyPI, with three workers, used through its OpenAI API by the `openai` SDK."""

import json
import os
import pathlib
import signal
import threading
import time

import openai

import scaling_recipe
from checks import FOLDER, MODEL_DIR, QUESTION, WEATHER_QUESTION, Checks, holds, same
from smg_fleet import Router, Worker, wait_for

MODEL = "demo"
ENCODER_DIR = pathlib.Path(__file__).resolve().parents[1] / "golden/encoders/bert_sentence"
RECOVERY_S = 5      # within which requests go around a worker that has died
PREFIX = "The curlew eats worms and crabs on the shore, and the dunlin follows the tide. " * 6
SCHEMA = {"type": "object", "required": ["name", "length_cm"], "additionalProperties": False,
          "properties": {"name": {"type": "string", "maxLength": 12}, "length_cm": {"type": "integer"}}}

checks = Checks()
workers = [Worker(f"worker{i}", MODEL_DIR, FOLDER).start() for i in range(3)]


def sdk(router):
    return openai.OpenAI(base_url=router.url + "/v1", api_key="unused", max_retries=0, timeout=30)


router = Router("router", FOLDER, workers, "round_robin", "--health-check-interval-secs", "1",
                "--health-failure-threshold", "1", "--health-success-threshold", "1",
                "--cb-timeout-duration-secs", "2").start()  # a worker that refuses is asked again after so long
client = sdk(router)


def ask(client, **more):
    fields = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "temperature": 0,
              "max_completion_tokens": 48}
    return client.chat.completions.create(**{**fields, **more})


def text_of(stream):
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def idle(limit_s=10):
    wait_for(lambda: all(worker.metric("vllm:num_requests_running") + worker.metric("dunlin_kv_pages_used") == 0
                         for worker in workers if worker.alive()), "workers hold nothing", limit_s)


def hits(policy):
    """Prompt tokens that the workers found in their caches, of 12 requests with one of four long prefixes."""
    router = Router(f"router_{policy}", FOLDER, workers, policy).start()
    client = sdk(router)
    before = sum(worker.metric("vllm:prefix_cache_hits_total") for worker in workers)
    for turn in range(3):
        for topic in range(4):
            client.completions.create(model=MODEL, prompt=f"{policy} {topic}: {PREFIX}{turn}", max_tokens=2)
            time.sleep(0.1)  # for the events to arrive
    router.kill()
    return sum(worker.metric("vllm:prefix_cache_hits_total") for worker in workers) - before


@checks.add("hits rise under cache_aware")
def cache_aware():
    by_turns, by_prefix = hits("round_robin"), hits("cache_aware")
    holds(by_prefix > 1.5 * by_turns, f"{by_prefix} tokens hit under cache_aware, {by_turns} under round_robin")


@checks.add("chat")
def chat():
    whole = ask(client)
    holds(whole.choices[0].message.content.strip(), "the answer is empty")
    same(whole.choices[0].finish_reason, "stop")
    holds(whole.usage.prompt_tokens > 0 and whole.usage.completion_tokens > 0, f"usage is {whole.usage}")
    same(text_of(ask(client, stream=True)), whole.choices[0].message.content)
    short = ask(client, max_completion_tokens=3)
    same((short.choices[0].finish_reason, short.usage.completion_tokens), ("length", 3))


@checks.add("chat options")
def options():
    answer = ask(client, n=2, logprobs=True, top_logprobs=2, seed=7, temperature=0.5)
    same(sorted(choice.index for choice in answer.choices), [0, 1])
    same(len(answer.choices[0].logprobs.content[0].top_logprobs), 2)
    stopped = ask(client, stop=["e"])
    same(stopped.choices[0].finish_reason, "stop")
    holds("e" not in stopped.choices[0].message.content, f"the answer is {stopped.choices[0].message.content!r}")


@checks.add("completions")
def completions():
    fields = {"model": MODEL, "prompt": "The dunlin is", "max_tokens": 12, "temperature": 0}
    whole = client.completions.create(**fields)
    same(whole.usage.completion_tokens, 12)
    streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**fields, stream=True)
                       if chunk.choices)
    same(streamed, whole.choices[0].text)


@checks.add("tools, forced")
def tools():
    # The demo model would never end a text of its own accord.
    fields = {"city": {"type": "string", "maxLength": 12}, "day": {"enum": ["today", "tomorrow"]}}
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "required": list(fields), "additionalProperties": False, "properties": fields}}}
    answer = ask(client, messages=[{"role": "user", "content": WEATHER_QUESTION}], tools=[tool],
                 tool_choice={"type": "function", "function": {"name": "get_weather"}}, max_completion_tokens=128)
    calls = answer.choices[0].message.tool_calls
    holds(calls, f"no call: {answer.choices[0].message}")
    same(calls[0].function.name, "get_weather")
    same(sorted(json.loads(calls[0].function.arguments)), ["city", "day"])


@checks.add("JSON schema")
def schema():
    answer = ask(client, response_format={"type": "json_schema", "json_schema": {"name": "bird", "schema": SCHEMA}},
                 max_completion_tokens=128)
    same(sorted(json.loads(answer.choices[0].message.content)), ["length_cm", "name"])


@checks.add("bad requests")
def bad():
    for fields in ({"temperature": -1}, {"n": 99}, {"model": "nobody"}):
        try:
            ask(client, **fields)
        except openai.APIStatusError as error:
            holds(400 <= error.status_code < 500, f"{fields} has status {error.status_code}")
        else:
            raise AssertionError(f"{fields} was taken")


@checks.add("embeddings")
def embeddings():
    worker = Worker("encoder", ENCODER_DIR, FOLDER, served="encoder", precision="fp32").start()
    own = Router("router_encoder", FOLDER, [worker], "round_robin").start()
    try:
        vector = sdk(own).embeddings.create(model="encoder", input="A dunlin flies.", encoding_format="float")
        holds(len(vector.data[0].embedding) > 8, f"the vector is {vector.data[0].embedding}")
        holds(vector.usage.prompt_tokens > 2, f"usage is {vector.usage}")
    finally:
        own.kill()
        worker.stop()


@checks.add("disconnect frees pages")
def disconnect():
    stream = ask(client, stream=True, max_completion_tokens=400, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    idle()


class Load:
    """Streams, one after another on each of several threads, until told to stop."""

    def __init__(self, threads, tokens):
        self.tokens, self.stopping = tokens, threading.Event()
        self.done, self.failed = 0, []  # failed: (time, thread, its stream, error)
        self.open = {}                  # thread: (its stream, when it last sent something)
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self, thread):
        own, number = sdk(router), 0
        while not self.stopping.is_set():
            number += 1
            try:
                stream = ask(own, stream=True, max_completion_tokens=self.tokens, extra_body={"ignore_eos": True})
                self.open[thread] = number, time.monotonic()
                for _ in stream:
                    self.open[thread] = number, time.monotonic()
                self.done += 1
            except openai.OpenAIError as error:
                self.failed.append((time.monotonic(), thread, number, repr(error)[:200]))
            self.open.pop(thread, None)

    def stalled(self, since_s):
        """The streams that have begun and sent nothing for so long."""
        return {(thread, number) for thread, (number, at) in list(self.open.items())
                if at < time.monotonic() - since_s}

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(30)


def throttle(worker, seconds, run_s):
    """Lets a worker run for `run_s` of every 40 ms and more, so that its streams last: the demo model is quick."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        os.kill(worker.process.pid, signal.SIGCONT)
        time.sleep(run_s)
        os.kill(worker.process.pid, signal.SIGSTOP)
        time.sleep(0.04)


@checks.add("kill -9 loses its own streams alone")
def kill():
    load = Load(9, 900)
    try:
        # Where it was stopped between two streams, once more; for longer, since a busy machine may not run it at all.
        for attempt in range(12):
            throttle(workers[0], 4, 0.002 * (1 + attempt))
            time.sleep(1.5)  # it is stopped: what sends nothing is its own
            its_own = load.stalled(1)
            if its_own:
                break
    finally:
        workers[0].kill()
    killed = time.monotonic()
    time.sleep(RECOVERY_S)
    done = load.done
    time.sleep(2)
    load.stop()
    workers[0].start()
    holds(its_own, "the worker had no stream")
    same({(thread, number) for _, thread, number, _ in load.failed}, its_own, "streams that failed")
    holds(all(at < killed + RECOVERY_S for at, *_ in load.failed), f"requests failed late: {load.failed}")
    holds(load.done > done, "no request was served")
    before = workers[0].requests()
    wait_for(lambda: ask(client) and workers[0].requests() > before, "the worker has requests again", 20)


@checks.add("rolling restart loses nothing")
def restart():
    load = Load(4, 24)
    for worker in workers:
        worker.stop()
        worker.start()
        served = worker.requests()
        wait_for(lambda: worker.requests() > served, f"{worker.name} has requests again", 20)
    load.stop()
    holds(not load.failed, f"{len(load.failed)} requests failed, {load.done} did not: {load.failed[:1]}")
    holds(load.done > 10, f"{load.done} requests were served")
    idle()


checks.add("README's recipe, word for word")(scaling_recipe.run)
checks.run()
