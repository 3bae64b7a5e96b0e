# SPDX-License-Identifier: Apache-2.0
"""The `anthropic` Python SDK."""

import anthropic

from checks import (BASE_URL, MODEL, QUESTION, WEATHER_QUESTION, WEATHER_TOOL, Checks, holds, metric, same,
                    wait_until_idle)

client = anthropic.Anthropic(base_url=BASE_URL, api_key="unused", max_retries=0, timeout=30)
checks = Checks()
ASK = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 48,
       "extra_body": {"temperature": 0}}
TOOL = {"name": WEATHER_TOOL["name"], "description": WEATHER_TOOL["description"],
        "input_schema": WEATHER_TOOL["parameters"]}


@checks.add("messages")
def messages():
    answer = client.messages.create(**ASK, system="You answer about Wrenmouth.")
    same((answer.type, answer.role, answer.stop_reason), ("message", "assistant", "end_turn"))
    holds(answer.content[0].text.strip(), "the answer is empty")
    holds(answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0, f"usage is {answer.usage}")
    stopped = client.messages.create(**ASK, stop_sequences=[" "])
    same((stopped.stop_reason, stopped.stop_sequence), ("stop_sequence", " "))
    same(client.messages.create(**{**ASK, "max_tokens": 2}).stop_reason, "max_tokens")
    history = [*ASK["messages"], {"role": "assistant", "content": answer.content}, *ASK["messages"]]
    holds(client.messages.create(**{**ASK, "messages": history}).content, "no second answer")


@checks.add("count_tokens")
def count_tokens():
    count = client.messages.count_tokens(model=MODEL, messages=ASK["messages"])
    usage = client.messages.create(**ASK).usage
    same(count.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)


@checks.add("stream")
def stream():
    whole = client.messages.create(**ASK)
    with client.messages.stream(**ASK) as events:
        text = "".join(events.text_stream)
        final = events.get_final_message()
    same(text, whole.content[0].text)
    same((final.stop_reason, final.usage.output_tokens), (whole.stop_reason, whole.usage.output_tokens))
    kinds = [event.type for event in client.messages.create(**ASK, stream=True)]
    same((kinds[0], kinds[-2], kinds[-1]), ("message_start", "message_delta", "message_stop"))


@checks.add("tools")
def tools():
    ask = {**ASK, "messages": [{"role": "user", "content": WEATHER_QUESTION}], "tools": [TOOL]}
    first = client.messages.create(**ask)
    same(first.stop_reason, "tool_use")
    call = first.content[-1]
    same((call.type, call.name, set(call.input)), ("tool_use", "get_weather", {"city", "day"}))
    with client.messages.stream(**ask) as events:
        same(events.get_final_message().content[-1].input, call.input)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": '{"sky": "sunny"}'}
    history = [*ask["messages"], {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    holds(client.messages.create(**{**ask, "messages": history}).content[0].text, "no answer from the tool's result")


@checks.add("tools, forced")
def tools_forced():
    for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
        answer = client.messages.create(**{**ASK, "max_tokens": 200}, tools=[TOOL], tool_choice=choice)
        same(set(answer.content[-1].input), {"city", "day"})


@checks.add("cancel")
def cancel():
    wait_until_idle()
    before = metric("vllm:generation_tokens_total")
    with client.messages.stream(**{**ASK, "max_tokens": 900, "extra_body": {"ignore_eos": True}}) as events:
        next(iter(events))
    wait_until_idle()
    made = metric("vllm:generation_tokens_total") - before
    holds(made < 900, f"{made:.0f} tokens were generated for a client that had left")


@checks.add("errors")
def errors():
    def refused(kind, **changes):
        try:
            client.messages.create(**{**ASK, **changes})
        except kind as error:
            return error
        raise AssertionError(f"{changes} was accepted")
    bad = refused(anthropic.BadRequestError, extra_body={"temperature": -1})
    same(bad.body["error"]["type"], "invalid_request_error")
    holds("temperature" in bad.body["error"]["message"], bad.body)
    image = {"type": "image", "source": {"type": "url", "url": "https://host.invalid/bird.png"}}
    elsewhere = refused(anthropic.BadRequestError, messages=[{"role": "user", "content": [image]}])
    same(elsewhere.body["error"]["field"], "messages[0].content[0].source.type")
    same(refused(anthropic.NotFoundError, model="nothing").body["error"]["type"], "not_found_error")


checks.run()
