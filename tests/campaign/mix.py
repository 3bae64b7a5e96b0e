# SPDX-License-Identifier: Apache-2.0
"""The requests of a campaign's load, and what of an answer has to be the same each time."""
import itertools
import json

PROMPTS = ["The birds fly over the sea", "Once upon a time there was", "A", "In the town by the harbour, where the ships come in, "
           "people say that the winter will be long and that the old lighthouse has not been lit for many years, but"]
PROFILES = [f"demo@{backend}-{precision}" for backend, precision in
            itertools.product(("flash", "efficient", "math"), ("bf16", "fp32", "fp8"))]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {
    "type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "n": {"type": "integer"}},
    "required": ["name", "n"], "additionalProperties": False}}}
SAMPLED = {"temperature": 0.9, "top_p": 0.9, "seed": 7}


def completion(prompt, model, **members):
    return ("/v1/completions", {"model": model, "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True, **members})


def chat(prompt, model, **members):
    return ("/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": 12,
                                     "temperature": 0, **members})


def requests():
    """(path, body) of each: every profile, greedy and sampled, streamed or not, several outputs, scores, a stop string, a
    schema, chats."""
    found = []
    for number, model in enumerate(PROFILES):
        prompt = PROMPTS[number % len(PROMPTS)]
        found += [completion(prompt, model), completion(prompt, model, stream=True, max_tokens=24),
                  completion(prompt, model, **SAMPLED, n=2), completion(prompt, model, logprobs=3, stream=True),
                  completion(prompt, model, **SAMPLED, frequency_penalty=0.5, presence_penalty=0.1)]
    found += [completion(PROMPTS[3] * 4, "demo", max_tokens=4), completion(PROMPTS[1], "demo", stop=["e"], max_tokens=64),
              completion("A table:", "demo", response_format=SCHEMA, ignore_eos=False, max_tokens=48),
              chat(PROMPTS[0], "demo"), chat(PROMPTS[1], "demo", stream=True, **SAMPLED),
              chat(PROMPTS[2], "demo", logprobs=True, top_logprobs=2)]
    return [(path, json.dumps(body)) for path, body in found]


class Choices:
    """The choices of an answer, of a stream as of one that comes at once: text, scores and how each ended."""

    def __init__(self):
        self.by_index = {}

    def add(self, document):
        for choice in document["choices"]:
            kept = self.by_index.setdefault(choice["index"], {"text": "", "scores": [], "finish": None})
            part = choice.get("delta") or choice.get("message") or {}
            kept["text"] += choice.get("text") or part.get("content") or ""
            kept["finish"] = choice.get("finish_reason") or kept["finish"]
            scores = choice.get("logprobs") or {}
            kept["scores"] += scores.get("content") or list(zip(scores.get("tokens", []), scores.get("token_logprobs", []),
                                                                scores.get("top_logprobs", [])))

    def bytes(self):
        return json.dumps(sorted(self.by_index.items())).encode()


def answer_bytes(body, streamed):
    """Of a whole body; None where it is none."""
    choices = Choices()
    if not streamed:
        choices.add(json.loads(body))
        return choices.bytes()
    for line in body.splitlines():
        if line == b"data: [DONE]":
            return choices.bytes()
        if line.startswith(b"data: "):
            document = json.loads(line[6:])
            if "error" in document:
                return None
            choices.add(document)
    return None
