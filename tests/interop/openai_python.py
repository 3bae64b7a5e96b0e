# SPDX-License-Identifier: Apache-2.0
"""The `openai` Python SDK."""

import asyncio
import json
import struct

import openai
import pydantic

from checks import (BASE_URL, ENCODER, MODEL, OPENAI_TOOL, QUESTION, WEATHER_QUESTION, WEATHER_TOOL, Checks, holds,
                    metric, same, wait_until_idle)

client = openai.OpenAI(base_url=BASE_URL + "/v1", api_key="unused", max_retries=0, timeout=30)
checks = Checks()
ASK = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "temperature": 0,
       "max_completion_tokens": 48}


class Bird(pydantic.BaseModel):
    name: str
    length_cm: int


@checks.add("models")
def models():
    names = [model.id for model in client.models.list()]
    holds(MODEL in names and ENCODER in names, f"models are {names}")
    same(client.models.retrieve(MODEL).id, MODEL)


@checks.add("chat")
def chat():
    answer = client.chat.completions.create(**ASK)
    choice = answer.choices[0]
    holds(choice.message.content.strip(), "the answer is empty")
    same(choice.finish_reason, "stop")
    same(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
    holds(answer.system_fingerprint.startswith("dunlin-"), f"system_fingerprint is {answer.system_fingerprint}")
    history = [*ASK["messages"], choice.message, {"role": "user", "content": QUESTION}]
    holds(client.chat.completions.create(**{**ASK, "messages": history}).choices[0].message.content, "no second answer")


@checks.add("chat options")
def options():
    answer = client.chat.completions.create(**ASK, n=2, logprobs=True, top_logprobs=3, seed=7, stop=["zzz"],
                                            presence_penalty=0.1)
    same([choice.index for choice in answer.choices], [0, 1])
    tokens = answer.choices[0].logprobs.content
    same(len(tokens[0].top_logprobs), 3)
    text = "".join(token.token for token in tokens)
    holds(text.startswith(answer.choices[0].message.content), f"tokens make {text!r}")
    short = client.chat.completions.create(**{**ASK, "max_completion_tokens": 3})
    same((short.choices[0].finish_reason, short.usage.completion_tokens), ("length", 3))
    math = client.chat.completions.create(**ASK, extra_body={"attention_backend": "math", "precision": "bf16"})
    holds("-math-bf16" in math.system_fingerprint, f"system_fingerprint is {math.system_fingerprint}")


@checks.add("stream")
def stream():
    whole = client.chat.completions.create(**ASK).choices[0].message.content
    chunks = list(client.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True}))
    same("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), whole)
    same(chunks[0].choices[0].delta.role, "assistant")
    same(chunks[-2].choices[0].finish_reason, "stop")
    holds(chunks[-1].usage.completion_tokens > 0 and not chunks[-1].choices, f"the last chunk is {chunks[-1]}")
    long = {**ASK, "max_completion_tokens": 400, "extra_body": {"ignore_eos": True}}
    pieces = sum(1 for _ in client.chat.completions.create(**long, stream=True))
    holds(pieces > 10, f"400 tokens came in {pieces} pieces")
    with client.chat.completions.stream(**ASK) as events:
        deltas = [event.delta for event in events if event.type == "content.delta"]
        same(events.get_final_completion().choices[0].message.content, whole)
    same("".join(deltas), whole)


@checks.add("stream, async")
async def stream_async():
    async with openai.AsyncOpenAI(base_url=BASE_URL + "/v1", api_key="unused", max_retries=0, timeout=30) as own:
        async def one():
            answer = await own.chat.completions.create(**ASK, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in answer])
        answers = await asyncio.gather(*(one() for _ in range(16)))
    same(len(set(answers)), 1, "number of different answers to one greedy question")


@checks.add("tools")
def tools():
    ask = {**ASK, "messages": [{"role": "user", "content": WEATHER_QUESTION}], "tools": [OPENAI_TOOL]}
    first = client.chat.completions.create(**ask).choices[0]
    same(first.finish_reason, "tool_calls")
    call = first.message.tool_calls[0]
    same((call.type, call.function.name), ("function", "get_weather"))
    same(set(json.loads(call.function.arguments)), {"city", "day"})
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"sky": "sunny", "celsius": 18}'}
    second = client.chat.completions.create(**{**ask, "messages": [*ask["messages"], first.message, result]}).choices[0]
    holds(second.message.content, "no answer from the tool's result")
    with client.chat.completions.stream(**ask) as events:
        kinds = {event.type for event in events}
        streamed = events.get_final_completion().choices[0].message.tool_calls[0]
    same(streamed.function.arguments, call.function.arguments)
    holds("tool_calls.function.arguments.delta" in kinds, f"events are {sorted(kinds)}")


@checks.add("tools, forced")
def tools_forced():
    strict = {"type": "function", "function": {**WEATHER_TOOL, "strict": True}}
    ask = {**ASK, "max_completion_tokens": 200, "tools": [strict]}
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        message = client.chat.completions.parse(**ask, tool_choice=choice).choices[0].message
        same(set(message.tool_calls[0].function.parsed_arguments), {"city", "day"})
    none = client.chat.completions.create(**ask, tool_choice="none").choices[0]
    holds(not none.message.tool_calls, "tool_choice none called a tool")


@checks.add("json_schema, parse")
def parse():
    ask = {**ASK, "max_completion_tokens": 200, "messages": [{"role": "user", "content": "Name a bird as JSON."}]}
    bird = client.chat.completions.parse(**ask, response_format=Bird).choices[0].message.parsed
    holds(isinstance(bird, Bird), f"parsed is {bird!r}")
    with client.chat.completions.stream(**ask, response_format=Bird) as events:
        for _ in events:
            pass
        same(events.get_final_completion().choices[0].message.parsed, bird)
    text = client.chat.completions.create(**ask, response_format={"type": "json_object"}).choices[0].message.content
    holds(isinstance(json.loads(text), dict), f"json_object gave {text!r}")


@checks.add("completions")
def completions():
    ask = {"model": MODEL, "prompt": "The harbour of Wrenmouth", "max_tokens": 8, "temperature": 0}
    whole = client.completions.create(**ask, echo=True, logprobs=2)
    text = whole.choices[0].text
    holds(text.startswith(ask["prompt"]), f"echo gave {text!r}")
    same("".join(whole.choices[0].logprobs.tokens), text)
    chunks = list(client.completions.create(**ask, stream=True))
    same(ask["prompt"] + "".join(chunk.choices[0].text for chunk in chunks), text)
    ids = client.completions.create(model=MODEL, prompt=[11, 12, 13], max_tokens=2)
    same(ids.usage.prompt_tokens, 3)


@checks.add("embeddings")
def embeddings():
    texts = ["the quick brown fox", "a lazy dog"]
    floats = client.embeddings.create(model=ENCODER, input=texts, encoding_format="float")
    decoded = client.embeddings.create(model=ENCODER, input=texts)  # the SDK asks for base64
    same([row.index for row in floats.data], [0, 1])
    for ours, theirs in zip(floats.data, decoded.data):
        same(struct.pack("36f", *ours.embedding), struct.pack("36f", *theirs.embedding))
    short = client.embeddings.create(model=ENCODER, input="one", dimensions=8)
    same(len(short.data[0].embedding), 8)
    holds(floats.usage.total_tokens > 0, "no usage")


@checks.add("responses")
def responses():
    ask = {"model": MODEL, "input": QUESTION, "temperature": 0, "max_output_tokens": 48, "store": False}
    answer = client.responses.create(**ask)
    same(answer.status, "completed")
    holds(answer.output_text.strip(), "the answer is empty")
    with client.responses.stream(**ask) as events:
        kinds = [event.type for event in events]
        same(events.get_final_response().output_text, answer.output_text)
    same((kinds[0], kinds[-1]), ("response.created", "response.completed"))
    bird = client.responses.parse(**{**ask, "max_output_tokens": 200}, text_format=Bird).output_parsed
    holds(isinstance(bird, Bird), f"parsed is {bird!r}")
    tool = {"type": "function", "strict": True, **WEATHER_TOOL}
    call = client.responses.create(**{**ask, "input": WEATHER_QUESTION}, tools=[tool]).output[0]
    same((call.type, call.name), ("function_call", "get_weather"))
    history = [{"role": "user", "content": WEATHER_QUESTION}, call.to_dict(),
               {"type": "function_call_output", "call_id": call.call_id, "output": '{"sky": "sunny"}'}]
    answer = client.responses.create(**{**ask, "input": history}, tools=[tool])
    holds(answer.output_text, "no answer from the tool's result")


@checks.add("responses cut by length")
def responses_cut():
    ask = {"model": MODEL, "input": QUESTION, "temperature": 0, "max_output_tokens": 4, "store": False,
           "extra_body": {"ignore_eos": True}}
    answer = client.responses.create(**ask)
    same((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))
    with client.responses.stream(**ask) as events:
        last = list(events)[-1]
    same((last.type, last.response.status), ("response.incomplete", "incomplete"))
    same(last.response.output_text, answer.output_text)
    same(last.response.usage.output_tokens, 4)


@checks.add("cancel")
def cancel():
    wait_until_idle()
    before = metric("vllm:generation_tokens_total")
    long = {**ASK, "max_completion_tokens": 900, "extra_body": {"ignore_eos": True}}
    for _ in range(3):
        answer = client.chat.completions.create(**long, stream=True)
        next(iter(answer))
        answer.close()
    wait_until_idle()
    made = metric("vllm:generation_tokens_total") - before
    holds(made < 3 * 900, f"{made:.0f} tokens were generated for clients that had left")


@checks.add("errors")
def errors():
    def refused(kind, **changes):
        try:
            client.chat.completions.create(**{**ASK, **changes})
        except kind as error:
            return error
        raise AssertionError(f"{changes} was accepted")
    bad = refused(openai.BadRequestError, temperature=-1)
    same((bad.param, bad.code, bad.type), ("temperature", "INVALID_FIELD", "invalid_request_error"))
    holds("temperature" in bad.message, bad.message)
    same(refused(openai.NotFoundError, model="nothing").status_code, 404)
    full = refused(openai.BadRequestError, messages=[{"role": "user", "content": "word " * 3000}])
    same(full.code, "context_length_exceeded")
    holds("maximum context length is 1024 tokens" in full.message, full.message)
    holds(bad.request_id, "no x-request-id")
    image = {"type": "image_url", "image_url": {"url": "https://host.invalid/bird.png", "detail": "auto"}}
    elsewhere = refused(openai.BadRequestError, messages=[{"role": "user", "content": [image]}])
    same(elsewhere.param, "messages[0].content[0].image_url.url")
    holds("scheme https" in elsewhere.message and "host.invalid" not in elsewhere.message, elsewhere.message)
    same(client.chat.completions.create(**ASK)._request_id is None, False)


@checks.add("members that the API does not have")
def other_members():
    answer = client.chat.completions.with_raw_response.create(**ASK, extra_body={"no_such_member": 1})
    same(answer.headers["x-dunlin-ignored"], "no_such_member")
    same(answer.parse().choices[0].message.content, client.chat.completions.create(**ASK).choices[0].message.content)


checks.run()
