# SPDX-License-Identifier: Apache-2.0
"""smg as it comes from PyPI, with three workers, used through its OpenAI API by the `openai` SDK."""

import json
import pathlib
import threading
import time

import openai

from checks import FOLDER, MODEL_DIR, OPENAI_TOOL, QUESTION, WEATHER_QUESTION, Checks, holds, same
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
                "--health-failure-threshold", "1", "--health-success-threshold", "1").start()
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
    answer = ask(client, messages=[{"role": "user", "content": WEATHER_QUESTION}], tools=[OPENAI_TOOL],
                 tool_choice="required", max_completion_tokens=128)
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

    def __init__(self, threads):
        self.done, self.failed, self.stopping = [], [], threading.Event()
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self):
        own = sdk(router)
        while not self.stopping.is_set():
            try:
                text_of(ask(own, stream=True, max_completion_tokens=24, extra_body={"ignore_eos": True}))
                self.done.append(time.monotonic())
            except openai.OpenAIError as error:
                self.failed.append((time.monotonic(), repr(error)[:200]))

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(30)


@checks.add("kill -9 loses its own streams alone")
def kill():
    streams = [ask(client, stream=True, max_completion_tokens=200, extra_body={"ignore_eos": True}) for _ in range(6)]
    for stream in streams:
        next(iter(stream))
    on_victim = workers[0].metric("vllm:num_requests_running")
    holds(on_victim == 2, f"{on_victim:.0f} of six streams are on the worker")
    workers[0].kill()
    killed = time.monotonic()
    failed = 0
    for stream in streams:
        try:
            text_of(stream)
        except openai.OpenAIError:
            failed += 1
    same(failed, 2, "streams that failed")
    load = Load(3)
    wait_for(lambda: time.monotonic() > killed + RECOVERY_S + 3, "time passes", 30)
    load.stop()
    late = [error for at, error in load.failed if at > killed + RECOVERY_S]
    holds(not late, f"{len(late)} requests failed more than {RECOVERY_S} s after the kill: {late[:1]}")
    holds(load.done, "no request was served")
    workers[0].start()
    before = workers[0].requests()
    wait_for(lambda: ask(client) and workers[0].requests() > before, "the worker has requests again", 20)


@checks.add("rolling restart loses nothing")
def restart():
    load = Load(4)
    for worker in workers:
        worker.stop()
        worker.start()
        served = worker.requests()
        wait_for(lambda: worker.requests() > served, f"{worker.name} has requests again", 20)
    load.stop()
    holds(not load.failed, f"{len(load.failed)} of {len(load.done)} requests failed: {load.failed[:1]}")
    holds(len(load.done) > 10, f"{len(load.done)} requests were served")
    idle()


checks.run()
