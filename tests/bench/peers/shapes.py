# SPDX-License-Identifier: Apache-2.0
"""The model shapes that are compared: config.json as Hugging Face writes it, and the tensors of each checkpoint.

Standard library only. The configs are those of engine/model/architectures/named_shapes.cc.
"""

import math

CONFIGS = {
    "gpt2-124m": {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12,
        "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257, "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new", "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
        "tie_word_embeddings": True, "eos_token_id": 50256, "bos_token_id": 50256, "torch_dtype": "bfloat16"},
    "llama-1b": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048,
        "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
        "vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0, "tie_word_embeddings": True,
        "rope_theta": 500000.0,
        "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192},
        "eos_token_id": 128001, "bos_token_id": 128000, "torch_dtype": "bfloat16"},
}
NORM = "norm"      # 1 + 0.1 n, n of a standard normal distribution
VECTOR = "vector"  # 0.02 n: biases
MATRIX = "matrix"  # 0.02 n


def gpt2_tensors(config):
    """Yields (name, shape, kind); Conv1D weights are [in, out]."""
    hidden = config["n_embd"]
    yield "wte.weight", (config["vocab_size"], hidden), MATRIX
    yield "wpe.weight", (config["n_positions"], hidden), MATRIX
    for i in range(config["n_layer"]):
        for norm in ("ln_1", "ln_2"):
            yield f"h.{i}.{norm}.weight", (hidden,), NORM
            yield f"h.{i}.{norm}.bias", (hidden,), VECTOR
        for name, rows, columns in (("attn.c_attn", hidden, 3 * hidden), ("attn.c_proj", hidden, hidden),
                                    ("mlp.c_fc", hidden, 4 * hidden), ("mlp.c_proj", 4 * hidden, hidden)):
            yield f"h.{i}.{name}.weight", (rows, columns), MATRIX
            yield f"h.{i}.{name}.bias", (columns,), VECTOR
    yield "ln_f.weight", (hidden,), NORM
    yield "ln_f.bias", (hidden,), VECTOR


def llama_tensors(config):
    """Yields (name, shape, kind); weights are [out, in]."""
    hidden, ffn, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden), MATRIX
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (hidden,), NORM
        yield layer + "post_attention_layernorm.weight", (hidden,), NORM
        for name, rows, columns in (("self_attn.q_proj", heads * dim, hidden), ("self_attn.k_proj", kv_heads * dim, hidden),
                                    ("self_attn.v_proj", kv_heads * dim, hidden), ("self_attn.o_proj", hidden, heads * dim),
                                    ("mlp.gate_proj", ffn, hidden), ("mlp.up_proj", ffn, hidden),
                                    ("mlp.down_proj", hidden, ffn)):
            yield f"{layer}{name}.weight", (rows, columns), MATRIX
    yield "model.norm.weight", (hidden,), NORM


def tensors(config):
    return list({"gpt2": gpt2_tensors, "llama": llama_tensors}[config["model_type"]](config))


def safetensors_header(named_shapes):
    """[(name, shape)] -> the JSON object of a safetensors header, all BF16, in the given order without gaps."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in named_shapes:
        end = offset + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    return header


def llama3_frequency_factors(config):
    """What rotary frequencies are divided by, one per pair of dimensions. Source: Llama 3.1's reference code."""
    scaling, dim = config["rope_scaling"], config["head_dim"]
    context = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    factors = []
    for i in range(0, dim, 2):
        wavelength = 2 * math.pi * config["rope_theta"] ** (i / dim)
        smooth = min(1.0, max(0.0, (context / wavelength - low) / (high - low)))
        factors.append(1.0 / ((1.0 - smooth) / scaling["factor"] + smooth))
    return factors


def prompt_tokens(vocab_size, count, seed):
    """Token ids of a prompt: a linear congruential sequence, the same in every language and release."""
    tokens, state = [], seed * 2654435761 % 2**32 or 1
    for _ in range(count):
        state = (1664525 * state + 1013904223) % 2**32
        tokens.append((state >> 8) % (vocab_size - 2))
    return tokens
