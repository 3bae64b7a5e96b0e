# SPDX-License-Identifier: Apache-2.0
"""Layers and models in plain PyTorch, for torch_worker.py: what is timed beside ours, and the logits' reference."""

import ctypes
import json
import math
import mmap
import os
import pathlib

import torch
from torch.nn import functional

RUNGS = ("linear", "layer_norm_linear", "layer_norm_mlp", "transformer_layer")
FP8_MAX = 448.0
ROPE_THETA = 500000.0


def quantized(x, scaling):
    """(E4M3 codes, FP32 scales): one scale for the tensor, or one for each row, [rows, 1]."""
    wide = x.float()
    amax = wide.abs().amax() if scaling == "tensor" else wide.abs().amax(-1, keepdim=True)
    scale = (amax / FP8_MAX).clamp(min=1e-12)
    return (wide / scale).to(torch.float8_e4m3fn), scale


class ScoredAttention:
    """Causal attention whose scores have a soft cap or ALiBi, over [batch, heads, tokens, dim]. job: torch_worker.scored's."""

    def __init__(self, job, device):
        self.group = job["heads"] // job["kv_heads"]
        self.scale, self.softcap = job["dim"] ** -0.5, job["softcap"]
        self.slopes = torch.exp2(-8.0 * torch.arange(1, job["heads"] + 1, device=device) / job["heads"])
        # A row attends to the keys up to its own: the last rows are the last keys'.
        self.rows = torch.arange(job["keys"] - job["queries"], job["keys"], device=device)
        self.keys = torch.arange(job["keys"], device=device)
        self.compiled = self.mask = None

    def adjusted(self, score, head, row, key):
        if self.softcap:
            return self.softcap * torch.tanh(score / self.softcap)
        return score + self.slopes[head] * (key - row)

    def eager(self, query, keys, values):
        keys, values = (tensor.repeat_interleave(self.group, 1) for tensor in (keys, values))
        rows, heads = self.rows[:, None], torch.arange(query.shape[1], device=query.device)[:, None, None]
        scores = self.adjusted((query @ keys.transpose(-1, -2)).float() * self.scale, heads, rows, self.keys)
        weights = torch.softmax(scores.masked_fill_(self.keys > rows, -math.inf), -1)
        return weights.to(values.dtype) @ values

    def flex(self, query, keys, values):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # not in every PyTorch
        behind = len(self.keys) - len(self.rows)
        if self.compiled is None:
            self.compiled = torch.compile(flex_attention, dynamic=False)
            if len(self.rows) > 1:
                self.mask = create_block_mask(lambda batch, head, row, key: row + behind >= key, None, None,
                                              len(self.rows), len(self.keys), device=query.device)
        return self.compiled(query, keys, values, block_mask=self.mask, enable_gqa=self.group > 1,
                             score_mod=lambda score, batch, head, row, key: self.adjusted(score, head, row + behind, key))


class Linear:
    """x W^T + b; in FP8 with weights quantised once and inputs in each call."""

    def __init__(self, rows, columns, dtype, scaling, device, bias=True):
        weight = torch.randn(rows, columns, device=device) * 0.02
        self.scaling, self.dtype = scaling, dtype
        self.bias = torch.zeros(rows, device=device, dtype=dtype) if bias else None
        if scaling is None:
            self.weight = weight.to(dtype)
            return
        self.weight, scale = quantized(weight, scaling)
        self.scale = scale.t() if scaling == "row" else scale

    def __call__(self, x):
        if self.scaling is None:
            return functional.linear(x, self.weight, self.bias)
        codes, scale = quantized(x.reshape(-1, x.shape[-1]), self.scaling)
        out = torch._scaled_mm(codes, self.weight.t(), scale_a=scale, scale_b=self.scale, bias=self.bias,
                               out_dtype=torch.bfloat16, use_fast_accum=self.scaling == "tensor")
        return out.view(*x.shape[:-1], -1)


class Layer:
    """A GPT-2 layer by Transformer Engine's rungs, causal, evaluation mode."""

    def __init__(self, shape, dtype, scaling, device, biases=True):
        hidden, ffn = shape["hidden"], shape["ffn"]
        self.heads = shape["heads"]
        self.qkv = Linear(3 * hidden, hidden, dtype, scaling, device, biases)
        self.out = Linear(hidden, hidden, dtype, scaling, device, biases)
        self.up = Linear(ffn, hidden, dtype, scaling, device, biases)
        self.down = Linear(hidden, ffn, dtype, scaling, device, biases)
        self.norm = (torch.ones(hidden, device=device, dtype=dtype), torch.zeros(hidden, device=device, dtype=dtype))

    def normed(self, x):
        return functional.layer_norm(x, (x.shape[-1],), *self.norm, 1e-5)

    def linear(self, x):
        return self.qkv(x)

    def layer_norm_linear(self, x):
        return self.qkv(self.normed(x))

    def layer_norm_mlp(self, x):
        return x + self.down(functional.gelu(self.up(self.normed(x)), approximate="tanh"))

    def attended(self, qkv):
        batch, tokens, width = qkv.shape
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in qkv.split(width // 3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width // 3))

    def attention(self, x):
        return self.attended(self.qkv(x))

    def transformer_layer(self, x):
        return self.layer_norm_mlp(x + self.attended(self.layer_norm_linear(x)))


def rotate(x, cos, sin):
    """Halves of each head are rotated against one another, as Hugging Face's Llama does."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def rope(positions, dim, theta, dtype):
    angles = positions[:, None].float() * theta ** (-torch.arange(0, dim, 2, device=positions.device).float() / dim)
    angles = torch.cat((angles, angles), -1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def llama_layer(layer, shape, x, cos, sin, keys, values, first):
    """One layer over `x` at positions [first, first + tokens); keys and values of [0, first) are in the cache."""
    batch, tokens, _ = x.shape
    heads, kv_heads, dim = shape["heads"], shape["kv_heads"], shape["dim"]
    rows = layer["qkv"](functional.rms_norm(x, (x.shape[-1],), layer["norm"], 1e-5)).view(batch, tokens, -1, dim)
    q, k, v = rows.transpose(1, 2).split((heads, kv_heads, kv_heads), 1)
    keys[:, :, first:first + tokens], values[:, :, first:first + tokens] = rotate(k, cos, sin), v
    seen = slice(0, first + tokens)
    y = functional.scaled_dot_product_attention(rotate(q, cos, sin), keys[:, :, seen], values[:, :, seen],
                                                is_causal=tokens > 1, enable_gqa=heads != kv_heads)
    x = x + layer["out"](y.transpose(1, 2).reshape(batch, tokens, heads * dim))
    gate, up = layer["gate_up"](functional.rms_norm(x, (x.shape[-1],), layer["mlp_norm"], 1e-5)).chunk(2, -1)
    return x + layer["down"](functional.silu(gate) * up)


class Llama:
    """A Llama with random weights and a cache of fixed length, for times alone."""

    def __init__(self, shape, precision, device):
        self.shape, self.device = shape, device
        self.dtype = {"fp32": torch.float32, "fp16": torch.float16}.get(precision, torch.bfloat16)
        scaling = "row" if precision == "fp8" else None
        hidden, dim = shape["hidden"], shape["dim"]

        def linear(rows, columns, fp8=scaling):
            return Linear(rows, columns, self.dtype, fp8, device, bias=False)

        one = torch.ones(hidden, device=device, dtype=self.dtype)
        self.layers = [{"qkv": linear((shape["heads"] + 2 * shape["kv_heads"]) * dim, hidden),
                        "out": linear(hidden, shape["heads"] * dim), "gate_up": linear(2 * shape["ffn"], hidden),
                        "down": linear(hidden, shape["ffn"]), "norm": one, "mlp_norm": one}
                       for _ in range(shape["layers"])]
        self.embedding = (torch.randn(shape["vocab"], hidden, device=device) * 0.02).to(self.dtype)
        self.head, self.one, self.step = linear(shape["vocab"], hidden, None), one, llama_layer

    def compile(self, on):
        self.step = torch.compile(llama_layer, dynamic=False) if on else llama_layer

    def cache(self, batch, length):
        size = (batch, self.shape["kv_heads"], length, self.shape["dim"])
        return [tuple(torch.zeros(size, device=self.device, dtype=self.dtype) for _ in range(2)) for _ in self.layers]

    def forward(self, tokens, caches, first):
        positions = torch.arange(first, first + tokens.shape[1], device=self.device)
        cos, sin = rope(positions, self.shape["dim"], ROPE_THETA, self.dtype)
        x = functional.embedding(tokens, self.embedding)
        for layer, (keys, values) in zip(self.layers, caches):
            x = self.step(layer, self.shape, x, cos, sin, keys, values, first)
        last = functional.rms_norm(x[:, -1], (x.shape[-1],), self.one, 1e-5)
        return self.head(last).argmax(-1)

    def prefill(self, tokens, caches):
        return self.forward(tokens, caches, 0)

    def decode(self, tokens, caches, length):
        return self.forward(tokens, caches, length - 1)


def llama_tensors(shape):
    """[(name, shape)] of a tied Llama checkpoint, as Hugging Face names them."""
    hidden, width, kv_width = shape["hidden"], shape["heads"] * shape["dim"], shape["kv_heads"] * shape["dim"]
    tensors = [("model.embed_tokens.weight", (shape["vocab"], hidden)), ("model.norm.weight", (hidden,))]
    for i in range(shape["layers"]):
        layer = f"model.layers.{i}."
        tensors += [(f"{layer}{norm}.weight", (hidden,)) for norm in ("input_layernorm", "post_attention_layernorm")]
        tensors += [(f"{layer}{name}.weight", size) for name, size in (
            ("self_attn.q_proj", (width, hidden)), ("self_attn.k_proj", (kv_width, hidden)),
            ("self_attn.v_proj", (kv_width, hidden)), ("self_attn.o_proj", (hidden, width)),
            ("mlp.gate_proj", (shape["ffn"], hidden)), ("mlp.up_proj", (shape["ffn"], hidden)),
            ("mlp.down_proj", (hidden, shape["ffn"])))]
    return tensors


def write_checkpoint(directory, shape, device):
    """model.safetensors of random BF16 weights: normal, deviation 0.02; norms near 1."""
    tensors, header, offset = llama_tensors(shape), {"__metadata__": {"format": "pt"}}, 0
    for name, size in tensors:
        end = offset + 2 * math.prod(size)
        header[name], offset = {"dtype": "BF16", "shape": list(size), "data_offsets": [offset, end]}, end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    torch.manual_seed(1)
    with open(os.path.join(directory, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, size in tensors:
            values = torch.randn(size, device=device) * (0.1 if len(size) == 1 else 0.02) + (len(size) == 1)
            values = values.to(torch.bfloat16).cpu().contiguous()
            file.write((ctypes.c_char * values.nbytes).from_address(values.data_ptr()))


def read_model(directory, device):
    """A function from token ids [batch, tokens] to logits in FP32."""
    folder = pathlib.Path(directory)
    config = json.loads((folder / "config.json").read_text())
    with open(folder / "model.safetensors", "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    size = int.from_bytes(data[:8], "little")
    weights = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, _ = entry["data_offsets"]
        flat = torch.frombuffer(data, dtype={"BF16": torch.bfloat16, "F32": torch.float32}[entry["dtype"]],
                                offset=8 + size + begin, count=math.prod(entry["shape"]))
        weights[name.removeprefix("transformer.")] = flat.view(entry["shape"]).to(device).float()
    function = {"gpt2": gpt2_logits, "llama": llama_logits}[config["model_type"]]
    return lambda tokens: function(config, weights, tokens)


def gpt2_logits(config, weights, tokens):
    heads, hidden = config["n_head"], config["n_embd"]

    def norm(x, name):
        return functional.layer_norm(x, (hidden,), weights[name + ".weight"], weights[name + ".bias"], 1e-5)

    def linear(x, name):
        return x @ weights[name + ".weight"] + weights[name + ".bias"]

    batch, count = tokens.shape
    x = weights["wte.weight"][tokens] + weights["wpe.weight"][:count]
    for i in range(config["n_layer"]):
        qkv = linear(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").split(hidden, -1)
        q, k, v = (part.view(batch, count, heads, -1).transpose(1, 2) for part in qkv)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + linear(y, f"h.{i}.attn.c_proj")
        up = functional.gelu(linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"), approximate="tanh")
        x = x + linear(up, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ weights["wte.weight"].t()


def llama_logits(config, weights, tokens):
    shape = {"heads": config["num_attention_heads"], "kv_heads": config["num_key_value_heads"],
             "dim": config["head_dim"]}
    device, count = tokens.device, tokens.shape[1]
    cos, sin = rope(torch.arange(count, device=device), shape["dim"], config["rope_theta"], torch.float32)
    x = weights["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."

        def product(*names, at=at):
            matrix = torch.cat([weights[f"{at}{name}.weight"] for name in names])
            return lambda rows: functional.linear(rows, matrix)

        layer = {"qkv": product("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
                 "out": product("self_attn.o_proj"), "gate_up": product("mlp.gate_proj", "mlp.up_proj"),
                 "down": product("mlp.down_proj"), "norm": weights[at + "input_layernorm.weight"],
                 "mlp_norm": weights[at + "post_attention_layernorm.weight"]}
        keys, values = (torch.zeros(1, shape["kv_heads"], count, shape["dim"], device=device) for _ in range(2))
        x = llama_layer(layer, shape, x, cos, sin, keys, values, 0)
    x = functional.rms_norm(x, (x.shape[-1],), weights["model.norm.weight"], config["rms_norm_eps"])
    return x @ weights["model.embed_tokens.weight"].t()
