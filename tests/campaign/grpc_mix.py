# SPDX-License-Identifier: Apache-2.0
"""Calls of the campaign's load over gRPC: dunlin.v1 Generate and KServe's ModelInfer, by the numbers of proto/, and what of their
responses has to be the same each time."""
import struct

from protobuf import fields_of, message, read_varint

GENERATE = "/dunlin.v1.GenerationService/Generate"
INFER = "/inference.GRPCInferenceService/ModelInfer"

GREEDY = message((1, 0.0))
SAMPLED = message((1, 0.9), (3, 0.9), (9, 7))       # temperature, top_p, seed
SEVERAL = SAMPLED + message((10, 2))                # n
SCORES = message((1, 2), (2, 1))                    # logprobs, prompt_logprobs
ZERO = b"\x21" + struct.pack("<d", 0.0)             # double_param of an InferParameter
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}'


def generate(model, prompt, sampling=GREEDY, max_tokens=8, ignore_eos=True, stop=(), **fields):
    """prompt: a text, or token ids. fields: further ones of GenerateRequest."""
    further = {"output": 8, "structured": 22}
    text = (2, prompt) if isinstance(prompt, str) else (3, message((1, prompt)))
    stopping = message((1, max_tokens), (5, ignore_eos)) + message(*((3, word) for word in stop))
    return GENERATE, message((1, model), text, (5, sampling), (6, stopping), *((further[name], fields[name]) for name in fields))


def calls(profiles, families, prompts):
    """Greedy and sampled, several outputs, scores, stop strings, a chat, a schema; a family's prompts are tokens."""
    found = []
    for number, model in enumerate(profiles):
        prompt = prompts[number % len(prompts)]
        found += [generate(model, prompt, max_tokens=24), generate(model, prompt, SEVERAL, output=SCORES)]
    for number, model in enumerate(families):
        prompt = [3 + (5 * number + 7 * at) % 50 for at in range(30)]
        found += [generate(f"{model}@flash-bf16", prompt, max_tokens=16), generate(f"{model}@flash-fp32", prompt[:9], SAMPLED)]
    asked = message((1, "user"), (2, prompts[0]))
    chat = message((1, "demo"), (4, message((1, asked))), (5, GREEDY), (6, message((1, 12))))
    parameters = [message((1, name), (2, value)) for name, value in (("max_tokens", message((2, 8))), ("temperature", ZERO))]
    tensor = message((1, "text_input"), (2, "BYTES"), (3, [1]), (5, message((8, prompts[0]))))
    infer = message((1, "demo"), *((4, parameter) for parameter in parameters), (5, tensor))
    return found + [generate("demo", prompts[1], stop=["e"], max_tokens=64), (GENERATE, chat), (INFER, infer),
                    generate("demo", "A table:", structured=message((1, SCHEMA)), ignore_eos=False, max_tokens=24)]


def messages_of(body):
    found, at = [], 0
    while at < len(body):
        _, size = struct.unpack(">BI", body[at:at + 5])
        found.append(fields_of(body[at + 5:at + 5 + size]))
        at += 5 + size
    return found


def packed(data):
    found, at = [], 0
    while at < len(data):
        value, at = read_varint(data, at)
        found.append(value)
    return found


def ending_of(finish):
    """Reason, tokens of the output and what stopped it; not its times and what the cache held."""
    fields = dict(fields_of(finish))
    return [fields.get(1), dict(fields_of(fields[2])).get(3), repr([fields.get(number) for number in (4, 5)])]


def generated(body):
    """By output: its text, reasoning, tokens, scores and end; of the prompt the scores. None where an output has no end."""
    outputs = {}
    for fields in messages_of(body):
        kept = outputs.setdefault(dict(fields).get(4, 0), {"text": "", "reasoning": "", "tokens": [], "scores": [], "end": None})
        for number, value in fields:
            if number in (1, 9):
                kept["text" if number == 1 else "reasoning"] += value.decode()
            elif number == 2:
                kept["tokens"] += packed(value)
            elif number in (3, 7):
                kept["scores"].append(value.hex())
            elif number == 6:
                kept["end"] = ending_of(value)
    return None if not outputs or any(kept["end"] is None for kept in outputs.values()) else sorted(outputs.items())


def inferred(body):
    """The outputs and their contents."""
    return [[number, value.hex()] for number, value in messages_of(body)[0] if number in (5, 6)]
