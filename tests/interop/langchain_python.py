# SPDX-License-Identifier: Apache-2.0
"""`langchain-openai`."""

import pydantic
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from checks import BASE_URL, ENCODER, MODEL, QUESTION, WEATHER_QUESTION, Checks, holds, same

SERVER = {"base_url": BASE_URL + "/v1", "api_key": "unused", "max_retries": 0, "timeout": 30}
chat = ChatOpenAI(model=MODEL, temperature=0, max_tokens=96, **SERVER)
checks = Checks()


class Bird(pydantic.BaseModel):
    """A bird and its length."""

    name: str
    length_cm: int


@tool
def get_weather(city: str, day: str) -> str:
    """The weather of a city on a day"""
    return f"sunny in {city} on {day}"


@checks.add("invoke")
def invoke():
    answer = chat.invoke(QUESTION)
    holds(answer.content.strip(), "the answer is empty")
    same(answer.response_metadata["finish_reason"], "stop")
    holds(answer.usage_metadata["output_tokens"] > 0, "no usage")
    same([each.content for each in chat.batch([QUESTION] * 4)], [answer.content] * 4)


@checks.add("invoke, async")
async def invoke_async():
    holds((await chat.ainvoke(QUESTION)).content, "the answer is empty")


@checks.add("stream")
def stream():
    chunks = list(chat.stream(QUESTION, stream_usage=True))
    same("".join(chunk.content for chunk in chunks), chat.invoke(QUESTION).content)
    holds(any(chunk.usage_metadata for chunk in chunks), "no usage")


@checks.add("structured output")
def structured_output():
    bird = chat.with_structured_output(Bird, method="json_schema").invoke("Name a bird as JSON.")
    holds(isinstance(bird, Bird), f"parsed is {bird!r}")


@checks.add("structured output by a forced tool")
def structured_output_tool():
    bird = chat.with_structured_output(Bird, method="function_calling").invoke("Name a bird.")
    holds(isinstance(bird, Bird), f"parsed is {bird!r}")


@checks.add("tools")
def tools():
    bound = chat.bind_tools([get_weather])
    question = HumanMessage(WEATHER_QUESTION)
    asked = bound.invoke([question])
    call = asked.tool_calls[0]
    same((call["name"], set(call["args"])), ("get_weather", {"city", "day"}))
    result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
    holds(bound.invoke([question, asked, result]).content, "no answer from the tool's result")
    whole = None
    for chunk in bound.stream([question]):
        whole = chunk if whole is None else whole + chunk
    same(whole.tool_calls[0]["args"], call["args"])


@checks.add("responses API")
def responses():
    own = ChatOpenAI(model=MODEL, temperature=0, max_tokens=48, use_responses_api=True, store=False, **SERVER)
    holds(own.invoke(QUESTION).text, "the answer is empty")


@checks.add("context overflow")
def overflow():
    for own in (chat, ChatOpenAI(model=MODEL, use_responses_api=True, store=False, **SERVER)):
        try:
            own.invoke("word " * 3000)
        except ContextOverflowError:
            continue
        raise AssertionError("the prompt was accepted")


@checks.add("embeddings")
def embeddings():
    # Without this option the client counts tokens by a table that it downloads.
    encoder = OpenAIEmbeddings(model=ENCODER, check_embedding_ctx_length=False, **SERVER)
    vectors = encoder.embed_documents(["one", "two"])
    same([len(vector) for vector in vectors], [len(encoder.embed_query("one"))] * 2)


checks.run()
