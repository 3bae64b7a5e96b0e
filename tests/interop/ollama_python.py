# SPDX-License-Identifier: Apache-2.0
"""`ollama`, the client of the programs that speak Ollama's API alone."""

import asyncio
import json

import ollama
import pydantic

from checks import BASE_URL, ENCODER, MODEL, OPENAI_TOOL, QUESTION, WEATHER_QUESTION, Checks, holds, same, wait_until_idle

client = ollama.Client(host=BASE_URL, timeout=30)
ASK = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "options": {"temperature": 0, "num_predict": 96}}
checks = Checks()


class Bird(pydantic.BaseModel):
    name: str
    length_cm: int


@checks.add("chat")
def chat():
    answer = client.chat(**ASK)
    holds(answer.message.content.strip(), "the answer is empty")
    same((answer.model, answer.message.role, answer.done, answer.done_reason), (MODEL, "assistant", True, "stop"))
    holds(answer.prompt_eval_count > 0 and answer.eval_count > 0, f"counts are {answer}")
    parts = answer.load_duration + answer.prompt_eval_duration + answer.eval_duration
    holds(0 < parts <= answer.total_duration + 3, f"durations are {answer}")
    same(client.chat(**{**ASK, "model": MODEL + ":latest"}).message.content, answer.message.content)


@checks.add("stream")
def stream():
    chunks = list(client.chat(**ASK, stream=True))
    same("".join(chunk.message.content for chunk in chunks), client.chat(**ASK).message.content)
    same([chunk.done for chunk in chunks], [False] * (len(chunks) - 1) + [True])
    holds(chunks[-1].eval_count > 0, f"the last chunk is {chunks[-1]}")


@checks.add("stream, async")
async def stream_async():
    own = ollama.AsyncClient(host=BASE_URL, timeout=30)

    async def one():
        return "".join([chunk.message.content async for chunk in await own.chat(**ASK, stream=True)])
    answers = await asyncio.gather(*(one() for _ in range(16)))
    same(len(set(answers)), 1, "number of different answers to one greedy question")


@checks.add("execution in options")
def execution():
    options = {**ASK["options"], "precision": "bf16", "attention_backend": "math"}
    holds(client.chat(**{**ASK, "options": options}).message.content, "the answer is empty")
    try:
        client.chat(**{**ASK, "options": {"precision": "nf4"}})
    except ollama.ResponseError as error:
        same(error.status_code, 400)
        holds("options.precision" in error.error, f"the error is {error}")
    else:
        raise AssertionError("a precision that is none was taken")


@checks.add("tools")
def tools():
    ask = {**ASK, "messages": [{"role": "user", "content": WEATHER_QUESTION}], "tools": [OPENAI_TOOL]}
    first = client.chat(**ask).message
    call = first.tool_calls[0].function
    same((call.name, set(call.arguments)), ("get_weather", {"city", "day"}))
    result = {"role": "tool", "tool_name": "get_weather", "content": '{"sky": "sunny", "celsius": 18}'}
    second = client.chat(**{**ask, "messages": [*ask["messages"], first, result]}).message
    holds(second.content, "no answer from the tool's result")
    streamed = [call for chunk in client.chat(**ask, stream=True) for call in chunk.message.tool_calls or []]
    same([each.function.arguments for each in streamed], [call.arguments])


@checks.add("a function as a tool")
def function_tool():
    def get_weather(city: str, day: str) -> str:
        """The weather of a city on a day

        Args:
            city: where
            day: when
        """
        return f"sunny in {city} on {day}"
    answer = client.chat(**{**ASK, "messages": [{"role": "user", "content": WEATHER_QUESTION}], "tools": [get_weather]})
    holds(answer.message.content or answer.message.tool_calls, "the answer is empty")


@checks.add("JSON schema")
def schema():
    ask = {**ASK, "messages": [{"role": "user", "content": "Name a bird as JSON."}]}
    bird = Bird.model_validate_json(client.chat(**ask, format=Bird.model_json_schema()).message.content)
    holds(isinstance(bird, Bird), f"parsed is {bird!r}")
    text = client.chat(**{**ask, "options": {"temperature": 0, "num_predict": 200}}, format="json").message.content
    holds(isinstance(json.loads(text), dict), f"json gave {text!r}")


@checks.add("generate")
def generate():
    same(client.generate(model=MODEL, prompt=QUESTION, options=ASK["options"]).response, client.chat(**ASK).message.content)
    chunks = list(client.generate(model=MODEL, prompt="The harbour of", raw=True, stream=True, options={"num_predict": 8}))
    same((chunks[-1].eval_count, chunks[-1].done_reason), (8, "length"))
    loaded = client.generate(model=MODEL, keep_alive=-1)
    same((loaded.response, loaded.done, loaded.done_reason), ("", True, "load"))
    same(client.chat(model=MODEL, messages=[], keep_alive=0).done_reason, "load")  # a model of the start stays
    greedy = client.generate(model=MODEL, prompt=QUESTION, options={"temperature": 50, "top_p": 0, "num_predict": 16}).response
    holds(client.chat(**ASK).message.content.startswith(greedy), f"top_p 0 gave {greedy!r}")
    floats = {"temperature": 0, "num_predict": 8.0, "top_k": 40.0, "seed": 1.0}
    same(client.generate(model=MODEL, prompt="The harbour of", raw=True, options=floats).eval_count, 8)


@checks.add("logprobs")
def logprobs():
    answer = client.chat(**{**ASK, "options": {"temperature": 0, "num_predict": 4}}, logprobs=True, top_logprobs=2)
    same("".join(token.token for token in answer.logprobs), answer.message.content)
    same([len(token.top_logprobs) for token in answer.logprobs], [2] * 4)


@checks.add("embeddings")
def embeddings():
    answer = client.embed(model=ENCODER, input=["a bird", "the sea", "a bird"])
    same(len(answer.embeddings), 3)
    same(answer.embeddings[0], answer.embeddings[2])
    holds(abs(sum(x * x for x in answer.embeddings[0]) - 1) < 1e-3, "the vector's length is not 1")
    same(len(client.embeddings(model=ENCODER, prompt="a bird").embedding), len(answer.embeddings[0]))
    same((client.embed(model=ENCODER, input=[]).embeddings, client.embed(model=ENCODER, input="").embeddings), ([], []))
    same(client.embeddings(model=ENCODER, prompt="").embedding, [])


@checks.add("list, show, ps")
def lists():
    names = [model.model for model in client.list().models]
    holds({MODEL + ":latest", ENCODER + ":latest"} <= set(names), f"models are {names}")
    shown = client.show(MODEL)
    holds({"completion", "tools"} <= set(shown.capabilities), f"capabilities are {shown.capabilities}")
    holds(shown.modelinfo[shown.modelinfo["general.architecture"] + ".context_length"] > 0, f"shown is {shown}")
    same(client.show(ENCODER).capabilities, ["embedding"])
    running = {model.model: model for model in client.ps().models}
    same(running[MODEL + ":latest"].expires_at.year, 2318)


@checks.add("pull, and what is not offered")
def pull():
    same(client.pull(MODEL).status, "success")
    same([part.status for part in client.pull(MODEL, stream=True)], ["success"])
    for refused in (lambda: client.pull("llama3"), lambda: client.delete(MODEL), lambda: client.copy(MODEL, "other")):
        try:
            refused()
        except ollama.ResponseError as error:
            same(error.status_code, 501)
            holds("models[]" in error.error, f"the error is {error}")
        else:
            raise AssertionError("it was not refused")


@checks.add("errors")
def errors():
    for streams in (False, True):
        try:
            list(client.chat(model="nope", messages=ASK["messages"], stream=streams))
        except ollama.ResponseError as error:
            same((error.status_code, error.error), (404, "model 'nope' not found"))
        else:
            raise AssertionError("an unknown model answered")


# The demo model sees none; the package encodes the bytes.
@checks.add("images")
def images():
    try:
        client.chat(**{**ASK, "messages": [{"role": "user", "content": "Which bird?", "images": [b"\x89PNG"]}]})
    except ollama.ResponseError as error:
        same(error.status_code, 400)
        holds("messages[0].images" in error.error, f"the error is {error}")
    else:
        raise AssertionError("an image was taken by a model that sees none")


@checks.add("a client that leaves")
def leave():
    answer = client.chat(**{**ASK, "options": {"temperature": 0, "num_predict": 900}}, stream=True)
    next(answer)
    answer.close()
    wait_until_idle()


checks.run()
