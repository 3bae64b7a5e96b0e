# SPDX-License-Identifier: Apache-2.0
"""The requests of a campaign's load, and the models that they are for: the demo model, and one of each kind of layer from the
goldens, small enough that a core answers hundreds a second."""
import collections
import itertools
import json
import pathlib

from grpc_mix import calls

GOLDENS = pathlib.Path(__file__).resolve().parents[1] / "golden" / "models"
PROMPTS = ["The birds fly over the sea", "Once upon a time there was", "A", "In the town by the harbour, where the ships come in, "
           "people say that the winter will be long and that the old lighthouse has not been lit for many years, but"]
PROFILES = [f"demo@{backend}-{precision}" for backend, precision in
            itertools.product(("flash", "efficient", "math"), ("bf16", "fp32", "fp8"))]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {
    "type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "n": {"type": "integer"}},
    "required": ["name", "n"], "additionalProperties": False}}}
SAMPLED = {"temperature": 0.9, "top_p": 0.9, "seed": 7}
# Heads that share keys; positions added; latent attention; windows; recurrent layers with and without attention; experts; MXFP4;
# ALiBi; convolutions.
FAMILIES = ["llama_gqa", "gpt2_tiny", "deepseek_v3_tiny", "gemma3_tiny", "qwen35_tiny", "mamba2_tiny", "mixtral_tiny",
            "gpt_oss_mxfp4", "falcon_alibi", "lfm2_tiny", "kimi_linear_tiny"]

# body: JSON over HTTP, bytes over gRPC.
Request = collections.namedtuple("Request", "path body streamed")


def models():
    """Rows of a config's `models`, besides the demo model."""
    return [{"name": name, "path": str(GOLDENS / name), "precisions": ["fp32", "bf16"], "kv_cache": {"memory_bytes": 2 << 20}}
            for name in FAMILIES]


def completion(prompt, model, **members):
    return ("/v1/completions", {"model": model, "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True, **members})


def chat(prompt, model, **members):
    return ("/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": 12,
                                     "temperature": 0, **members})


def of_every_profile():
    """Greedy and sampled, streamed or not, several outputs, scores."""
    found = []
    for number, model in enumerate(PROFILES):
        prompt = PROMPTS[number % len(PROMPTS)]
        found += [completion(prompt, model), completion(prompt, model, stream=True, max_tokens=24),
                  completion(prompt, model, **SAMPLED, n=2), completion(prompt, model, logprobs=3, stream=True),
                  completion(prompt, model, **SAMPLED, frequency_penalty=0.5, presence_penalty=0.1)]
    return found


def of_every_family():
    """Their prompts and outputs are tokens: they have no tokenizer. Prompts that begin alike share pages."""
    found = []
    for number, (model, precision) in enumerate(itertools.product(FAMILIES, ("fp32", "bf16"))):
        prompt = [3 + (7 * number + 5 * at) % 50 for at in range(40)]
        name = f"{model}@flash-{precision}"
        tokens = {"return_token_ids": True}
        found += [completion(prompt[:5], name, **tokens), completion(prompt, name, **tokens, stream=True, max_tokens=16),
                  completion(prompt[:20], name, **tokens, **SAMPLED, n=2), completion(prompt[:33], name, **tokens, logprobs=2)]
    return found


def of_every_api():
    """A stop string, a schema, a long prompt; chats, responses, messages; KServe's three routes; Ollama's two."""
    sampled = {"temperature": 0.9, "top_p": 0.9}
    message = {"model": "demo", "max_tokens": 12, "messages": [{"role": "user", "content": PROMPTS[0]}], "temperature": 0}
    response = {"model": "demo", "max_output_tokens": 12, "input": PROMPTS[1], "temperature": 0}
    infer = {"inputs": [{"name": "text_input", "shape": [1], "datatype": "BYTES", "data": [PROMPTS[0]]}],
             "parameters": {"max_tokens": 8, "temperature": 0.0}}
    generate = {"text_input": PROMPTS[2], "max_tokens": 16, "temperature": 0, "ignore_eos": True, "return_finish_reason": True,
                "return_num_output_tokens": True}
    ollama = {"model": "demo", "options": {"num_predict": 12, "temperature": 0}, "stream": False}
    ollama_chat = {**ollama, "messages": message["messages"]}
    return [completion(PROMPTS[3] * 4, "demo", max_tokens=4), completion(PROMPTS[1], "demo", stop=["e"], max_tokens=64),
            completion("A table:", "demo", response_format=SCHEMA, ignore_eos=False, max_tokens=48),
            chat(PROMPTS[0], "demo"), chat(PROMPTS[1], "demo", stream=True, **SAMPLED),
            chat(PROMPTS[2], "demo", logprobs=True, top_logprobs=2),
            ("/v1/messages", message), ("/v1/messages", {**message, "stream": True}),
            ("/v1/responses", response), ("/v1/responses", {**response, "stream": True, "seed": 3, **sampled}),
            ("/v2/models/demo/infer", infer), ("/v2/models/demo/generate", generate),
            ("/v2/models/demo/generate_stream", generate),
            ("/api/chat", {**ollama_chat, "logprobs": True}), ("/api/chat", {**ollama_chat, "stream": True}),
            ("/api/generate", {**ollama, "prompt": PROMPTS[2], "raw": True, "stream": True})]


def requests():
    return [Request(path, json.dumps(body), bool(body.get("stream")) or path.endswith("_stream"))
            for path, body in [*of_every_profile(), *of_every_family(), *of_every_api()]] + [
                Request(path, body, True) for path, body in calls(PROFILES, FAMILIES, PROMPTS)]
