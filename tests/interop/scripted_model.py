# SPDX-License-Identifier: Apache-2.0
"""Writes a model that calls one tool and then says one thing, whatever it is asked: a GPT-2 of one layer whose weights are
computed, with the demo model's tokenizer and chat template and a context that the whole prompts of coding agents fit in.
Only the weights are special: the server tokenizes, samples and parses as for any other model.

How: an embedding is a random code of signs, and positions are angles. One head of attention finds the token that begins
a tool's response, another the token before the current one. Each unit of the MLP knows one step of an output: it fires for
a pair of tokens, and adds the code of the next. So no pair of tokens comes twice in the outputs. Standard library only.
"""

import array
import json
import math
import pathlib
import random
import struct

HEAD, HEADS, CONTEXT, STEPS_MAX, SEARCH_MAX = 128, 3, 32768, 128, 20000
WIDTH, CODE, ANGLES = HEAD * HEADS, HEAD, 24
# The parts of an activation: the token's code, the code of the token before it, positions, two marks.
BEFORE, POSITION = CODE, 2 * CODE
HAS_RESPONSE, ANSWERED = POSITION + 2 * ANGLES, POSITION + 2 * ANGLES + 1
START, RESPONSE, END = "Ċ", "<tool_response>", "<|im_end|>"  # Ċ: the newline at the end of a prompt


def spelled(text, vocabulary, start):
    """Ids after start whose tokens make text, so that no pair of neighbours comes twice."""
    stack = [(0, [start], frozenset())]
    for _ in range(SEARCH_MAX):
        if not stack:
            break
        at, ids, pairs = stack.pop()
        if at == len(text):
            return ids[1:]
        for end in range(at + 1, len(text) + 1):  # the longest token is tried first: it is pushed last
            token = vocabulary.get(text[at:end])
            if token is not None and (ids[-1], token) not in pairs:
                stack.append((end, [*ids, token], pairs | {(ids[-1], token)}))
    raise ValueError(f"{text!r} has no simple spelling without a repeated pair")


def steps_of(tokenizer, call, answer):
    """(token before or None, token, next token, whether a tool has responded or None for either) of the two outputs."""
    added = {each["content"]: each["id"] for each in tokenizer["added_tokens"]}
    vocabulary = tokenizer["model"]["vocab"]
    start, end = vocabulary[START], added[END]
    text = json.dumps(call, separators=(",", ":")).replace(" ", "Ġ")
    first = [added["<tool_call>"], *spelled(text, vocabulary, added["<tool_call>"]), added["</tool_call>"], end]
    second = [*spelled(answer.replace(" ", "Ġ"), vocabulary, start), end]
    steps = [(None, start, first[0], False), (None, start, second[0], True)]
    for ids in ([start, *first], [start, *second]):
        steps += [(*three, None) for three in zip(ids, ids[1:], ids[2:])]
    assert len(steps) <= STEPS_MAX and len({step[:2] for step in steps}) == len(steps) - 1, steps
    return steps, added[RESPONSE]


class Weights:
    """Named tensors of bfloat16, zero until they are set."""

    def __init__(self):
        self.tensors = {}

    def add(self, name, *shape, fill=0.0):
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        self.tensors[name] = (shape, array.array("H", [bits(fill)]) * size)

    def set(self, name, row, column, value):
        shape, values = self.tensors[name]
        values[row * shape[-1] + column if len(shape) > 1 else column] = bits(value)

    def save(self, path):
        header, at = {"__metadata__": {"format": "pt"}}, 0
        for name, (shape, values) in self.tensors.items():
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + 2 * len(values)]}
            at += 2 * len(values)
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, values in self.tensors.values():
                file.write(values.tobytes())


def bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def weights_of(steps, response, vocabulary_size):
    draw = random.Random(1)
    codes = [[draw.choice((-1.0, 1.0)) for _ in range(CODE)] for _ in range(vocabulary_size)]
    weights, layer = Weights(), "transformer.h.0."
    weights.add("transformer.wte.weight", vocabulary_size, WIDTH)
    weights.add("transformer.wpe.weight", CONTEXT, WIDTH)
    for norm in (layer + "ln_1", layer + "ln_2", "transformer.ln_f"):
        weights.add(norm + ".weight", WIDTH, fill=1.0)
        weights.add(norm + ".bias", WIDTH)
    for name, rows, columns in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                ("mlp.c_fc", WIDTH, STEPS_MAX), ("mlp.c_proj", STEPS_MAX, WIDTH)):
        weights.add(layer + name + ".weight", rows, columns)
        weights.add(layer + name + ".bias", columns)
    for token, code in enumerate(codes):
        for column, value in enumerate(code):
            weights.set("transformer.wte.weight", token, column, value)
    weights.set("transformer.wte.weight", response, HAS_RESPONSE, 8.0)
    angles = [draw.uniform(0.1, math.pi) for _ in range(ANGLES)]
    set_attention(weights, layer, angles)
    set_steps(weights, layer, steps, codes)
    for position in range(CONTEXT):
        for at, angle in enumerate(angles):
            weights.set("transformer.wpe.weight", position, POSITION + 2 * at, math.cos(angle * position))
            weights.set("transformer.wpe.weight", position, POSITION + 2 * at + 1, math.sin(angle * position))
    return weights


def set_attention(weights, layer, angles):
    """A normalised activation is about 1.6 times its parts, one with the mark of a response 1.3 times."""
    joint, out = layer + "attn.c_attn.weight", layer + "attn.c_proj.weight"
    key, value = WIDTH, 2 * WIDTH  # the first columns of keys and values in the joint matrix
    # Head 0: a constant query, keys and values that are the mark of a response: its score is 60, others have 0.
    weights.set(layer + "attn.c_attn.bias", 0, 0, 64.0)
    weights.set(joint, HAS_RESPONSE, key, 1.0)
    weights.set(joint, HAS_RESPONSE, value, 1.0)
    weights.set(out, 0, ANSWERED, 0.4)  # 4 after a response
    # Head 1: the query turned back by one position; values are codes.
    for at, angle in enumerate(angles):
        cosine, sine = POSITION + 2 * at, POSITION + 2 * at + 1
        for row, column, turned in ((cosine, 0, math.cos(angle)), (sine, 0, math.sin(angle)),
                                    (cosine, 1, -math.sin(angle)), (sine, 1, math.cos(angle))):
            weights.set(joint, row, HEAD + 2 * at + column, 12 * turned)
        weights.set(joint, cosine, key + HEAD + 2 * at, 1.0)
        weights.set(joint, sine, key + HEAD + 2 * at + 1, 1.0)
    for at in range(CODE):
        weights.set(joint, at, value + HEAD + at, 1 / 1.6)
        weights.set(out, HEAD + at, BEFORE + at, 1.0)


def set_steps(weights, layer, steps, codes):
    """A code meets itself with 1.15 after normalisation, another with half of that at most; ANSWERED is 0 or about 4."""
    into, out, bias = layer + "mlp.c_fc.weight", layer + "mlp.c_proj.weight", layer + "mlp.c_fc.bias"
    for unit, (before, token, after, answered) in enumerate(steps):
        for at in range(CODE):
            weights.set(into, at, unit, codes[token][at] * 24 / CODE)
            weights.set(out, unit, at, codes[after][at])
            if before is not None:
                weights.set(into, BEFORE + at, unit, codes[before][at] * 24 / CODE)
        weights.set(into, ANSWERED, unit, {None: 0.0, False: -16.0, True: 8.0}[answered])
        weights.set(bias, 0, unit, -20.0 - (24.0 if before is not None else 0.0) - (24.0 if answered else 0.0))


def write(folder, demo, call, answer):
    """Makes folder a model directory; call is {"name": ..., "arguments": {...}}, answer a text."""
    demo, folder = pathlib.Path(demo), pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text((demo / name).read_text())
    config = json.loads((demo / "config.json").read_text())
    vocabulary_size = config["vocab_size"]
    config.update(n_positions=CONTEXT, n_ctx=CONTEXT, n_embd=WIDTH, n_layer=1, n_head=HEADS, n_inner=STEPS_MAX)
    (folder / "config.json").write_text(json.dumps(config))
    generation = json.loads((demo / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**generation, "do_sample": False}))
    steps, response = steps_of(json.loads((demo / "tokenizer.json").read_text()), call, answer)
    weights_of(steps, response, vocabulary_size).save(folder / "model.safetensors")
