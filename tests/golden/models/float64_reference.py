# SPDX-License-Identifier: Apache-2.0
"""Plain forward passes of every family, written from the papers, in any torch float type.

An oracle independent of `transformers`: it reads a checkpoint folder's own files, shares no code with
it, and does everything, norms and rotary angles included, in the requested type.
"""

import json
import math

import torch
from safetensors.torch import load_file


def attend(q, k, v, scale=None, window=None, softcap=None):
    """q [n, heads, d], k and v [n, kv_heads, d] -> [n, heads * d]; causal, scale 1 / sqrt(d) unless given.

    window: a row sees that many keys, its own the last. softcap: scores become cap * tanh(score / cap).
    """
    n, heads, d = q.shape
    k, v = (t.repeat_interleave(heads // t.shape[1], dim=1) for t in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) * (d ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    hidden = torch.ones(n, n).triu(1).bool()
    if window:
        hidden |= torch.ones(n, n).tril(-window).bool()
    scores = scores.masked_fill(hidden, -math.inf)
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
    """x [n, heads, d]: pairs (i, i + r / 2) of the first r = 2 * len(frequencies) elements, as Hugging Face stores them."""
    angles = torch.arange(x.shape[0], dtype=x.dtype)[:, None] * frequencies
    cos, sin = (factor * f(angles)[:, None, :] for f in (torch.cos, torch.sin))
    a, b, rest = x.split([len(frequencies), len(frequencies), x.shape[-1] - 2 * len(frequencies)], dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


def rope_of(config):
    """Both config styles, as one dictionary."""
    theta = config.get("rope_theta") or config.get("rotary_emb_base") or 10000.0
    part = config.get("rotary_pct") or config.get("partial_rotary_factor") or 1.0
    rope = {"rope_theta": theta, "partial_rotary_factor": part}
    return rope | (config.get("rope_parameters") or config.get("rope_scaling") or {})


def windows_of(config):
    """The window of every layer, None where it sees all."""
    layers, kind = config["num_hidden_layers"], config["model_type"]
    window = config.get("sliding_window")
    if kind == "mistral":
        return [window] * layers
    if kind not in ("qwen2", "qwen3", "gemma2") or (kind != "gemma2" and not config.get("use_sliding_window")):
        return [None] * layers
    slides = [i % 2 == 0 if kind == "gemma2" else i >= config["max_window_layers"] for i in range(layers)]
    if config.get("layer_types"):
        slides = [t == "sliding_attention" for t in config["layer_types"]]
    return [window if s else None for s in slides]


def llama_logits(config, w, tokens):
    """The Llama family: Llama, Mistral, Qwen 2 and 3, Gemma 2."""
    gemma = config["model_type"] == "gemma2"
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    epsilon, n = config["rms_norm_eps"], len(tokens)
    frequencies, factor = rope_frequencies(rope_of(config), head_dim, w["model.norm.weight"].dtype)
    windows = windows_of(config)
    scale = config["query_pre_attn_scalar"] ** -0.5 if gemma else None

    def norm(x, name):
        return rms_norm(x, w[name + ".weight"] + (1 if gemma else 0), epsilon)

    def linear(x, name):
        return x @ w[name + ".weight"].t() + w.get(name + ".bias", 0)

    def head_norm(x, name):
        return norm(x, name) if name + ".weight" in w else x

    x = w["model.embed_tokens.weight"][tokens]
    if gemma:
        x = x * math.sqrt(config["hidden_size"])
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        attention = layer + "self_attn."
        y = norm(x, layer + "input_layernorm")
        q, k, v = (linear(y, f"{attention}{p}_proj").view(n, -1, head_dim) for p in "qkv")
        q, k = head_norm(q, attention + "q_norm"), head_norm(k, attention + "k_norm")
        y = attend(rotate(q, frequencies, factor), rotate(k, frequencies, factor), v, scale, windows[i],
                   config.get("attn_logit_softcapping"))
        y = linear(y, attention + "o_proj")
        x = x + (norm(y, layer + "post_attention_layernorm") if gemma else y)
        y = norm(x, layer + ("pre_feedforward_layernorm" if gemma else "post_attention_layernorm"))
        gate = linear(y, layer + "mlp.gate_proj")
        gate = gelu_tanh(gate) if gemma else gate * torch.sigmoid(gate)
        y = linear(gate * linear(y, layer + "mlp.up_proj"), layer + "mlp.down_proj")
        x = x + (norm(y, layer + "post_feedforward_layernorm") if gemma else y)
    logits = norm(x, "model.norm") @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).t()
    cap = config.get("final_logit_softcapping")
    return cap * torch.tanh(logits / cap) if cap else logits


# Where the two families of the same layer keep their parts.
NEOX = {"prefix": "gpt_neox.", "embed": "embed_in", "attention": "attention.", "up": "mlp.dense_h_to_4h",
        "down": "mlp.dense_4h_to_h", "norm": "final_layer_norm", "gelu": gelu_exact}
PHI = {"prefix": "model.", "embed": "embed_tokens", "attention": "self_attn.", "up": "mlp.fc1", "down": "mlp.fc2",
       "norm": "final_layernorm", "gelu": gelu_tanh}


def neox_logits(config, w, tokens):
    """GPT-NeoX and Phi: LayerNorm, partially rotated heads, parallel residual."""
    neox = config["model_type"] == "gpt_neox"
    names = NEOX if neox else PHI
    heads, epsilon, n = config["num_attention_heads"], config["layer_norm_eps"], len(tokens)
    head_dim = config["hidden_size"] // heads
    rope = rope_of(config)
    rotary_dim = int(head_dim * rope["partial_rotary_factor"])
    prefix = names["prefix"]
    frequencies, factor = rope_frequencies(rope, rotary_dim, w[f"{prefix}{names['embed']}.weight"].dtype)

    def linear(x, name):
        return x @ w[name + ".weight"].t() + w.get(name + ".bias", 0)

    def norm(x, name):
        return layer_norm(x, w[name + ".weight"], w.get(name + ".bias"), epsilon)

    x = w[f"{prefix}{names['embed']}.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        layer = f"{prefix}layers.{i}."
        attention = layer + names["attention"]
        first = norm(x, layer + "input_layernorm")
        if neox:  # Q, K and V are interleaved by head
            q, k, v = linear(first, attention + "query_key_value").view(n, heads, 3, head_dim).unbind(2)
        else:
            q, k, v = (linear(first, f"{attention}{p}_proj").view(n, -1, head_dim) for p in "qkv")
        term = linear(attend(rotate(q, frequencies, factor), rotate(k, frequencies, factor), v), attention + "dense")
        parallel = config.get("use_parallel_residual", True)
        second = norm(x if parallel else x + term, layer + "post_attention_layernorm") if neox else first
        x = x + term + linear(names["gelu"](linear(second, layer + names["up"])), layer + names["down"])
    x = norm(x, prefix + names["norm"])
    head = next(h for h in ("embed_out", "lm_head", prefix + names["embed"]) if h + ".weight" in w)
    return linear(x, head)


LOGITS = {"gpt2": gpt2_logits, "nanogpt": gpt2_logits, "gpt_neox": neox_logits, "phi": neox_logits,
          "llama": llama_logits, "mistral": llama_logits, "qwen2": llama_logits, "qwen3": llama_logits,
          "gemma2": llama_logits}


def load(folder, dtype):
    """Returns tokens -> logits [len(tokens), vocab_size] of the checkpoint in the folder."""
    config = json.loads((folder / "config.json").read_text())
    w = {}
    for file in sorted(folder.glob("*.safetensors")):
        w |= {n.removeprefix("transformer."): t.to(dtype) for n, t in load_file(file).items()}
    return lambda tokens: LOGITS[config["model_type"]](config, w, tokens)
