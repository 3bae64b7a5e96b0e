#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates the goldens of this folder by the clients' own code: a loopback server answers every call with a golden, and
openai-python and anthropic read it; their models then validate every object strictly.
Needs the packages openai and anthropic (checked with 3.57 and 2.13). Usage: check_goldens.py"""

import http.server
import json
import pathlib
import threading

import anthropic
import openai
from anthropic.types import Message, ModelInfo, RawMessageStreamEvent
from openai.types import Completion, CreateEmbeddingResponse, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

GOLDEN = pathlib.Path(__file__).parent / "golden"
answer = {"name": "", "status": 200}


class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = (GOLDEN / answer["name"]).read_bytes().rstrip(b"\n") + (b"\n\n" if answer["name"].endswith("sse") else b"")
        kind = "text/event-stream" if answer["name"].endswith("sse") else "application/json"
        self.send_response(answer["status"])
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = reply

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
oai = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
ant = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
checked = 0


def serve(name, status=200):
    global checked
    checked += 1
    answer.update(name=name, status=status)
    print(name)
    return GOLDEN / name


def events(path):
    for line in path.read_text().splitlines():
        if line.startswith("data: ") and line not in ("data: [DONE]", 'data: {"type":"ping"}'):
            yield json.loads(line[6:])


def document(name, model, call):
    path = serve(name)
    TypeAdapter(model).validate_python(json.loads(path.read_text()))
    return call()


def stream(name, model, call):
    path = serve(name)
    for event in events(path):
        if model is Completion:  # null before the end, in OpenAI's streams too; the model is that of a whole response
            for choice in event["choices"]:
                choice["finish_reason"] = choice["finish_reason"] or "stop"
        TypeAdapter(model).validate_python(event)
    return list(call())


messages = [{"role": "user", "content": "hi"}]
chat = lambda **more: oai.chat.completions.create(model="m", messages=messages, **more)
complete = lambda **more: oai.completions.create(model="m", prompt="x", **more)
respond = lambda **more: oai.responses.create(model="m", input="hi", **more)
message = lambda **more: ant.messages.create(model="m", max_tokens=9, messages=messages, **more)
words = "Hello \"w\"\n\N{EURO SIGN}"

assert document("chat.json", ChatCompletion, chat).choices[0].message.content == words
chunks = stream("chat.sse", ChatCompletionChunk, lambda: chat(stream=True))
assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == words
assert chunks[-1].usage.completion_tokens == 5 and chunks[-1].usage.prompt_tokens_details.cached_tokens == 2
tools = document("chat_tools.json", ChatCompletion, chat).choices[0]
assert tools.finish_reason == "tool_calls" and tools.message.tool_calls[0].function.arguments == '{"city":"Oslo"}'
stream("chat_tools.sse", ChatCompletionChunk, lambda: chat(stream=True))
serve("chat_tools.sse")
with oai.chat.completions.stream(model="m", messages=messages) as s:
    final = s.get_final_completion()
assert [c.function.name for c in final.choices[0].message.tool_calls] == ["weather", "time"]
assert [c.finish_reason for c in document("chat_n.json", ChatCompletion, chat).choices] == ["stop", "length"]
stream("chat_n.sse", ChatCompletionChunk, lambda: chat(stream=True))
assert len(document("chat_logprobs.json", ChatCompletion, chat).choices[0].logprobs.content) == 3
stream("chat_logprobs.sse", ChatCompletionChunk, lambda: chat(stream=True))
assert document("chat_constraint.json", ChatCompletion, chat).choices[0].finish_reason == "length"
serve("chat_error.sse")
try:
    list(chat(stream=True))
    raise SystemExit("chat_error.sse raised nothing")
except openai.APIError as error:
    assert error.code == "DEVICE_FAILED", error

assert document("completion.json", Completion, complete).choices[0].finish_reason == "stop"
stream("completion.sse", Completion, lambda: complete(stream=True))
assert document("completion_logprobs.json", Completion, complete).choices[0].logprobs.token_logprobs == [-0.5] * 3
stream("completion_logprobs.sse", Completion, lambda: complete(stream=True))

assert document("response.json", Response, respond).output_text == words
assert stream("response.sse", ResponseStreamEvent, lambda: respond(stream=True))[-1].response.output_text == words
items = document("response_tools.json", Response, respond).output
assert [i.type for i in items] == ["reasoning", "message", "function_call", "function_call"]
numbers = [e.sequence_number for e in stream("response_tools.sse", ResponseStreamEvent, lambda: respond(stream=True))]
assert numbers == list(range(len(numbers)))
serve("response_tools.sse")
with oai.responses.stream(model="m", input="hi") as s:
    assert s.get_final_response().output[2].arguments == '{"city":"Oslo"}'
assert len(document("response_logprobs.json", Response, respond).output[0].content[0].logprobs) == 3
assert document("response_incomplete.json", Response, respond).status == "incomplete"
serve("response_error.sse")
for event in events(GOLDEN / "response_error.sse"):
    TypeAdapter(ResponseStreamEvent).validate_python(event)

assert document("message.json", Message, message).stop_sequence == "END"
stream("message.sse", RawMessageStreamEvent, lambda: message(stream=True))
blocks = document("message_tools.json", Message, message).content
assert [b.type for b in blocks] == ["thinking", "text", "tool_use", "tool_use"] and blocks[2].input == {"city": "Oslo"}
stream("message_tools.sse", RawMessageStreamEvent, lambda: message(stream=True))
serve("message_tools.sse")
with ant.messages.stream(model="m", max_tokens=9, messages=messages) as s:
    final = s.get_final_message()
assert final.content[2].input == {"city": "Oslo"} and final.usage.output_tokens == 11, final
assert final.usage.cache_read_input_tokens == 2 and final.stop_reason == "tool_use"
serve("message_error.sse")
try:
    list(message(stream=True))
    raise SystemExit("message_error.sse raised nothing")
except anthropic.APIStatusError as error:
    assert error.body["error"]["reason"] == "DEVICE_FAILED", error.body
serve("count_tokens.json")
assert ant.messages.count_tokens(model="m", messages=messages).input_tokens == 17

embed = lambda: oai.embeddings.create(model="m", input=["a", "b"], encoding_format="float")
assert document("embeddings_float.json", CreateEmbeddingResponse, embed).data[0].embedding == [0.5, -0.25]
serve("embeddings_base64.json")
assert list(oai.embeddings.create(model="m", input=["a", "b"]).data[0].embedding) == [0.5, -0.25]
serve("models.json")
assert [m.id for m in oai.models.list()] == ["a", 'b"']
document("model.json", Model, lambda: oai.models.retrieve("a"))
serve("models_anthropic.json")
assert [(m.display_name, m.created_at.year) for m in ant.models.list()] == [("a", 2023), ('b"', 2023)]
assert document("model_anthropic.json", ModelInfo, lambda: ant.models.retrieve("a")).type == "model"

for name, status, call, kind, check in (
    ("error_field.json", 400, chat, openai.BadRequestError,
     lambda e: (e.code, e.param, e.type) == ("INVALID_FIELD", "top_p", "invalid_request_error")),
    ("error_full.json", 429, chat, openai.RateLimitError, lambda e: e.code == "QUEUE_FULL"),
    ("anthropic_error_full.json", 429, message, anthropic.RateLimitError,
     lambda e: e.body["error"]["type"] == "rate_limit_error"),
):
    serve(name, status)
    try:
        call()
    except kind as error:
        assert check(error), error
    else:
        raise SystemExit(f"{name} raised nothing")
print(f"{checked} answers read")
