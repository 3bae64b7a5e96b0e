# SPDX-License-Identifier: Apache-2.0
"""What of an answer has to be the same each time: texts, tokens, scores and how it ended, whatever pieces a stream comes in; not
ids, times and what the cache held."""
import json
import struct

import grpc_mix


class Choices:
    """The choices of an answer of OpenAI's completions and chats."""

    def __init__(self):
        self.by_index = {}

    def add(self, document):
        for choice in document["choices"]:
            kept = self.by_index.setdefault(choice["index"], {"text": "", "tokens": [], "scores": [], "finish": None})
            part = choice.get("delta") or choice.get("message") or {}
            kept["text"] += choice.get("text") or part.get("content") or ""
            kept["tokens"] += choice.get("token_ids") or []
            kept["finish"] = choice.get("finish_reason") or kept["finish"]
            scores = choice.get("logprobs") or {}
            kept["scores"] += scores.get("content") or list(zip(scores.get("tokens", []), scores.get("token_logprobs", []),
                                                                scores.get("top_logprobs", [])))

    def content(self):
        return sorted(self.by_index.items())


def choices_of(documents):
    choices = Choices()
    for document in documents:
        choices.add(document)
    return choices.content()


def response_of(documents):
    """Of /v1/responses: the items of the last event's response, and the deltas before it."""
    last = documents[-1].get("response", documents[-1])
    if last["status"] not in ("completed", "incomplete"):
        return None
    items = [{name: item.get(name) for name in ("type", "status", "content", "name", "arguments")} for item in last["output"]]
    deltas = "".join(document["delta"] for document in documents if document.get("type") == "response.output_text.delta")
    return [last["status"], items, last["usage"]["output_tokens"], deltas]


def message_of(documents):
    """Of /v1/messages: its blocks, which a stream has in deltas."""
    if documents[0]["type"] == "message":
        return [documents[0]["content"], documents[0]["stop_reason"], documents[0]["usage"]["output_tokens"]]
    if documents[-1]["type"] != "message_stop":
        return None
    texts = [[document["index"], document["delta"].get("text")] for document in documents
             if document["type"] == "content_block_delta"]
    blocks = {index: "".join(text for at, text in texts if at == index) for index, _ in texts}
    end = next(document for document in documents if document["type"] == "message_delta")
    return [sorted(blocks.items()), end["delta"]["stop_reason"], end["usage"]["output_tokens"]]


def generated_of(documents):
    """Of KServe's generate and generate_stream."""
    if not documents[-1].get("finish_reason"):
        return None
    return ["".join(document["text_output"] for document in documents), documents[-1]["finish_reason"],
            sum(document["num_output_tokens"] for document in documents)]


def inferred_of(documents):
    """Of KServe's infer."""
    return [[output["name"], output["data"]] for output in documents[0]["outputs"]]


def ollama_of(documents):
    """Of Ollama's chat and generate."""
    last = documents[-1]
    if not last["done"]:
        return None
    texts = [document["message"]["content"] if "message" in document else document["response"] for document in documents]
    scores = [score for document in documents for score in document.get("logprobs") or []]
    return ["".join(texts), last["done_reason"], last["prompt_eval_count"], last["eval_count"], scores]


READERS = {"api/chat": ollama_of, "api/generate": ollama_of, "completions": choices_of, "chat/completions": choices_of, "responses": response_of, "messages": message_of,
           "generate": generated_of, "generate_stream": generated_of, "infer": inferred_of}


def documents_of(body, streamed):
    """Those of a body; None where one of them is an error, or OpenAI's [DONE] is not the last of its stream."""
    if not streamed:
        return [json.loads(body)]
    if body.startswith(b"{"):  # Ollama's lines
        return [json.loads(line) for line in body.splitlines()]
    lines = [line[6:] for line in body.splitlines() if line.startswith(b"data: ")]
    done = lines[-1:] == [b"[DONE]"]
    documents = [json.loads(line) for line in (lines[:-1] if done else lines)]
    if any("error" in document and document["error"] for document in documents):
        return None
    return documents if done or "choices" not in documents[0] else None


GRPC_READERS = {grpc_mix.GENERATE: grpc_mix.generated, grpc_mix.INFER: grpc_mix.inferred}


def grpc_answer(read, body):
    try:
        content = read(body)
    except (ValueError, LookupError, struct.error):
        return None
    return json.dumps(content).encode() if content else None


def answer_bytes(path, body, streamed):
    """Of a whole body; None where it is none."""
    if path in GRPC_READERS:
        return grpc_answer(GRPC_READERS[path], body)
    read = READERS.get(path.removeprefix("/v1/").removeprefix("/")) or READERS[path.rsplit("/", 1)[1]]
    try:
        documents = documents_of(body, streamed)
        content = read(documents) if documents else None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None  # it has not the form of an answer
    return None if content is None else json.dumps(content).encode()
