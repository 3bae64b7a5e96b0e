"""Plain GPT-2, nanoGPT and Llama forward passes, written from the papers, in any torch float type.

An oracle independent of `transformers`: it reads a checkpoint folder's own files, shares no code with
it, and does everything, norms and rotary angles included, in the requested type.
"""

import json
import math

import torch
from safetensors.torch import load_file


def attend(q, k, v):
    """q [n, heads, d], k and v [n, kv_heads, d] -> [n, heads * d]; causal, scale 1 / sqrt(d)."""
    n, heads, d = q.shape
    k, v = (t.repeat_interleave(heads // t.shape[1], dim=1) for t in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(d)
    scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
    return torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).reshape(n, heads * d)


def layer_norm(x, weight, bias, epsilon):
    x = x - x.mean(-1, keepdim=True)
    x = x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * weight
    return x if bias is None else x + bias


def rms_norm(x, weight, epsilon):
    return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * weight


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def gelu_exact(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def gpt2_logits(config, w, tokens):
    """Serves both orientations: Conv1D [in, out] of GPT-2 and nn.Linear [out, in] of nanoGPT."""
    nano = config["model_type"] == "nanogpt"
    epsilon = 1e-5 if nano else config["layer_norm_epsilon"]
    heads, hidden = config["n_head"], config["n_embd"]

    def linear(x, name):
        weight = w[name + ".weight"].t() if nano else w[name + ".weight"]
        return x @ weight + w.get(name + ".bias", 0)

    def norm(x, name):
        return layer_norm(x, w[name + ".weight"], w.get(name + ".bias"), epsilon)

    n = len(tokens)
    x = w["wte.weight"][tokens] + w["wpe.weight"][:n]
    for i in range(config["n_layer"]):
        q, k, v = linear(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").view(n, 3, heads, hidden // heads).unbind(1)
        x = x + linear(attend(q, k, v), f"h.{i}.attn.c_proj")
        up = linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        x = x + linear(gelu_exact(up) if nano else gelu_tanh(up), f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ w.get("lm_head.weight", w["wte.weight"]).t()


def rope_frequencies(rope, head_dim, dtype):
    """Returns angles per position [head_dim / 2] and the factor on cos and sin.

    Source: Llama 3 (llama3), Chen et al. 2023 (linear), Peng et al. 2023 (yarn).
    """
    theta, kind = rope["rope_theta"], rope.get("rope_type") or rope.get("type", "default")
    plain = torch.tensor([theta ** (-2 * i / head_dim) for i in range(head_dim // 2)], dtype=dtype)
    if kind == "default":
        return plain, 1.0
    factor = rope["factor"]
    if kind == "linear":
        return plain / factor, 1.0
    context = rope["original_max_position_embeddings"]
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        turns = context * plain / (2 * math.pi)  # full turns within the original context
        keep = ((turns - low) / (high - low)).clamp(0, 1)
        return keep * plain + (1 - keep) * plain / factor, 1.0
    assert kind == "yarn"

    def pair_with_turns(turns):
        return head_dim * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first = max(math.floor(pair_with_turns(rope.get("beta_fast", 32))), 0)
    last = min(math.ceil(pair_with_turns(rope.get("beta_slow", 1))), head_dim - 1)
    ramp = ((torch.arange(head_dim // 2, dtype=dtype) - first) / max(last - first, 0.001)).clamp(0, 1)
    return ramp * plain / factor + (1 - ramp) * plain, 0.1 * math.log(factor) + 1


def rotate(x, frequencies, factor):
    """x [n, heads, d]: pairs (i, i + d / 2), as Hugging Face stores Llama."""
    angles = torch.arange(x.shape[0], dtype=x.dtype)[:, None] * frequencies
    cos, sin = (factor * f(angles)[:, None, :] for f in (torch.cos, torch.sin))
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def llama_logits(config, w, tokens):
    rope = config.get("rope_parameters") or {"rope_theta": config["rope_theta"], **(config["rope_scaling"] or {})}
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    epsilon, n = config["rms_norm_eps"], len(tokens)
    frequencies, factor = rope_frequencies(rope, head_dim, w["model.norm.weight"].dtype)
    x = w["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        y = rms_norm(x, w[layer + "input_layernorm.weight"], epsilon)
        q, k, v = ((y @ w[f"{layer}self_attn.{p}_proj.weight"].t()).view(n, -1, head_dim) for p in "qkv")
        attended = attend(rotate(q, frequencies, factor), rotate(k, frequencies, factor), v)
        x = x + attended @ w[layer + "self_attn.o_proj.weight"].t()
        y = rms_norm(x, w[layer + "post_attention_layernorm.weight"], epsilon)
        gate = y @ w[layer + "mlp.gate_proj.weight"].t()
        up = y @ w[layer + "mlp.up_proj.weight"].t()
        x = x + (gate * torch.sigmoid(gate) * up) @ w[layer + "mlp.down_proj.weight"].t()
    x = rms_norm(x, w["model.norm.weight"], epsilon)
    return x @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).t()


def load(folder, dtype):
    """Returns tokens -> logits [len(tokens), vocab_size] of the checkpoint in the folder."""
    config = json.loads((folder / "config.json").read_text())
    w = {}
    for file in sorted(folder.glob("*.safetensors")):
        w |= {n.removeprefix("transformer."): t.to(dtype) for n, t in load_file(file).items()}
    logits = llama_logits if config["model_type"] == "llama" else gpt2_logits
    return lambda tokens: logits(config, w, tokens)
