# SPDX-License-Identifier: Apache-2.0
"""LiteLLM: its providers `hosted_vllm`, `openai` and `anthropic`, its exception for a full context, fallbacks of its
router."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it downloads one

import litellm

from checks import BASE_URL, MODEL, QUESTION, SMALL, Checks, holds, same

litellm.telemetry = False
litellm.suppress_debug_info = True
PROVIDERS = {"hosted_vllm": BASE_URL + "/v1", "openai": BASE_URL + "/v1", "anthropic": BASE_URL}
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
LONG = "word " * 400  # more than SMALL has room for, less than MODEL has
checks = Checks()


def parameters(provider, model=MODEL):
    return {"model": f"{provider}/{model}", "api_base": PROVIDERS[provider], "api_key": "unused"}


def ask(provider, text, model=MODEL, **more):
    """No max_tokens: of those, `anthropic` asks for many more than the context has."""
    return litellm.completion(**parameters(provider, model), messages=[{"role": "user", "content": text}], temperature=0,
                              num_retries=0, max_retries=0, timeout=30, **more)


@checks.add("completion")
def completion():
    answers = {provider: ask(provider, QUESTION).choices[0].message.content for provider in PROVIDERS}
    holds(answers["openai"].strip(), "the answer is empty")
    same(answers, dict.fromkeys(PROVIDERS, answers["openai"]))


@checks.add("stream")
def stream():
    whole = ask("openai", QUESTION)
    for provider in PROVIDERS:
        chunks = list(ask(provider, QUESTION, stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        same(text, whole.choices[0].message.content, provider)
        used = [chunk.usage.completion_tokens for chunk in chunks if getattr(chunk, "usage", None)]
        same(used, [whole.usage.completion_tokens], provider)


@checks.add("tools")
def tools():
    question = "What is the weather in Lisbon?"
    for provider in PROVIDERS:
        message = ask(provider, question, tools=[TOOL]).choices[0].message
        [call] = message.tool_calls
        same((call.function.name, call.function.arguments), ("get_weather", '{"city": "Lisbon"}'), provider)
        history = [{"role": "user", "content": question}, message.model_dump(),
                   {"role": "tool", "tool_call_id": call.id, "content": '{"city": "Lisbon", "sky": "sunny"}'}]
        answer = litellm.completion(**parameters(provider), messages=history, tools=[TOOL], temperature=0, timeout=30)
        holds(answer.choices[0].message.content, f"{provider}: no answer from the tool's result")


@checks.add("context window exceeded")
def context_window():
    for provider in PROVIDERS:
        try:
            ask(provider, LONG, model=SMALL)
        except litellm.ContextWindowExceededError as error:
            same(error.status_code, 400, provider)
        else:
            raise AssertionError(f"{provider}: the prompt was accepted")


@checks.add("fallbacks")
def fallbacks():
    deployments = [{"model_name": name, "litellm_params": parameters("openai", model)}
                   for name, model in (("small", SMALL), ("absent", "nothing"), ("demo", MODEL))]
    router = litellm.Router(model_list=deployments, num_retries=0, context_window_fallbacks=[{"small": ["demo"]}],
                            fallbacks=[{"absent": ["demo"]}])
    for name, text in (("small", LONG), ("absent", QUESTION)):
        answer = router.completion(model=name, messages=[{"role": "user", "content": text}], temperature=0, max_tokens=16)
        same(answer.model, MODEL, name)


checks.run()
