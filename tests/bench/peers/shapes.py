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
    "qwen3-30b-a3b-8l": {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_hidden_layers": 8, "hidden_size": 2048,
        "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
        "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0,
        "tie_word_embeddings": False, "rope_theta": 1000000.0, "eos_token_id": 151645, "bos_token_id": 151643,
        "torch_dtype": "bfloat16"},
}
CONFIGS |= {
    # Three gated delta nets before each attention layer.
    "qwen3.5-2b": {
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "num_hidden_layers": 24, "hidden_size": 2048,
        "intermediate_size": 6144, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 248320,
        "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "hidden_act": "silu", "attention_bias": False,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 6, "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_value_head_dim": 128,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25,
                            "mrope_interleaved": True, "mrope_section": [11, 11, 10]},
        "tie_word_embeddings": True, "eos_token_id": 248319, "bos_token_id": 248319, "torch_dtype": "bfloat16"},
    # Ten short convolutions and six attention layers.
    "lfm2-1.2b": {
        "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "num_hidden_layers": 16, "hidden_size": 2048,
        "intermediate_size": 8192, "block_auto_adjust_ff_dim": False, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536, "max_position_embeddings": 128000,
        "norm_eps": 1e-5, "conv_L_cache": 3, "conv_bias": False,
        "layer_types": ["full_attention" if i in (2, 5, 8, 10, 12, 14) else "conv" for i in range(16)],
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}, "tie_word_embeddings": True, "eos_token_id": 7,
        "bos_token_id": 1, "torch_dtype": "bfloat16"},
}
CONFIGS |= {
    # Qwen3.5-35B-A3B, 8 of its 40 layers: gated delta nets, and a mixture of experts in each layer.
    "qwen3.5-35b-a3b-8l": {
        **CONFIGS["qwen3.5-2b"], "architectures": ["Qwen3_5MoeForCausalLM"], "model_type": "qwen3_5_moe_text",
        "num_hidden_layers": 8, "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 2, "intermediate_size": 512,
        "num_attention_heads": 16, "linear_num_value_heads": 32, "num_experts": 256, "num_experts_per_tok": 8,
        "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "tie_word_embeddings": False},
    # Gemma 4 E2B: embeddings of each layer, four windows before each full attention; the last 20 layers have no K and V.
    "gemma4-e2b": {
        "architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "num_hidden_layers": 35, "hidden_size": 1536,
        "intermediate_size": 6144, "use_double_wide_mlp": True, "num_attention_heads": 8, "num_key_value_heads": 1,
        "head_dim": 256, "num_kv_shared_layers": 20, "hidden_size_per_layer_input": 256, "vocab_size": 262144,
        "vocab_size_per_layer_input": 262144, "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "sliding_window": 512,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
        "per_layer_config": {str(i): {"head_dim": 512} for i in range(4, 35, 5)},
        "rope_parameters": {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0,
                                               "rope_type": "proportional"},
                            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
        "final_logit_softcapping": 30.0, "hidden_activation": "gelu_pytorch_tanh", "attention_k_eq_v": False,
        "enable_moe_block": False, "tie_word_embeddings": True, "eos_token_id": 1, "bos_token_id": 2,
        "torch_dtype": "bfloat16"},
}
MIXTURES = ("qwen3-30b-a3b-8l",)        # of experts
HYBRIDS = ("qwen3.5-2b", "lfm2-1.2b")   # layers with a state beside attention
# Large shapes, Q4_K_M alone, and their fields while repeated.py makes them.
NARROW = {"qwen3.5-35b-a3b-8l": {"num_experts": 16, "vocab_size": 2560},
          "gemma4-e2b": {"vocab_size": 4096, "vocab_size_per_layer_input": 4096}}
BY_NAME = MIXTURES + HYBRIDS + tuple(NARROW)  # left out of a run that names no shape; BF16 and Q4_K_M alone
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


def gated_mlp(prefix, hidden, ffn):
    for name, rows, columns in (("gate_proj", ffn, hidden), ("up_proj", ffn, hidden), ("down_proj", hidden, ffn)):
        yield f"{prefix}.{name}.weight", (rows, columns), MATRIX


def llama_tensors(config):
    """Of llama and qwen3_moe. Yields (name, shape, kind); weights are [out, in]."""
    hidden, dim = config["hidden_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    experts = config.get("num_experts", 0)
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden), MATRIX
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (hidden,), NORM
        yield layer + "post_attention_layernorm.weight", (hidden,), NORM
        for name, rows, columns in (("q_proj", heads * dim, hidden), ("k_proj", kv_heads * dim, hidden),
                                    ("v_proj", kv_heads * dim, hidden), ("o_proj", hidden, heads * dim)):
            yield f"{layer}self_attn.{name}.weight", (rows, columns), MATRIX
        if not experts:
            yield from gated_mlp(layer + "mlp", hidden, config["intermediate_size"])
            continue
        for norm in ("q_norm", "k_norm"):
            yield f"{layer}self_attn.{norm}.weight", (dim,), NORM
        yield layer + "mlp.gate.weight", (experts, hidden), MATRIX
        for expert in range(experts):
            yield from gated_mlp(f"{layer}mlp.experts.{expert}", hidden, config["moe_intermediate_size"])
    yield "model.norm.weight", (hidden,), NORM
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], hidden), MATRIX


def qwen35_tensors(config):
    hidden, dim = config["hidden_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    value_heads = config["linear_num_value_heads"]
    values = value_heads * config["linear_value_head_dim"]
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden), MATRIX
    for i, kind in enumerate(config["layer_types"]):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (hidden,), VECTOR  # norms here multiply by one plus the weight
        yield layer + "post_attention_layernorm.weight", (hidden,), VECTOR
        if "num_experts" in config:
            yield from shared_mixture(layer + "mlp", config)
        else:
            yield from gated_mlp(layer + "mlp", hidden, config["intermediate_size"])
        if kind == "full_attention":
            for name, rows, columns in (("q_proj", 2 * heads * dim, hidden), ("k_proj", kv_heads * dim, hidden),
                                        ("v_proj", kv_heads * dim, hidden), ("o_proj", hidden, heads * dim)):
                yield f"{layer}self_attn.{name}.weight", (rows, columns), MATRIX
            for norm in ("q_norm", "k_norm"):
                yield f"{layer}self_attn.{norm}.weight", (dim,), VECTOR
            continue
        for name, rows, columns in (("in_proj_qkv", 2 * keys + values, hidden), ("in_proj_z", values, hidden),
                                    ("in_proj_a", value_heads, hidden), ("in_proj_b", value_heads, hidden),
                                    ("out_proj", hidden, values)):
            yield f"{layer}linear_attn.{name}.weight", (rows, columns), MATRIX
        yield layer + "linear_attn.conv1d.weight", (2 * keys + values, 1, config["linear_conv_kernel_dim"]), MATRIX
        yield layer + "linear_attn.norm.weight", (config["linear_value_head_dim"],), NORM
        for name in ("A_log", "dt_bias"):
            yield f"{layer}linear_attn.{name}", (value_heads,), VECTOR
    yield "model.norm.weight", (hidden,), VECTOR
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], hidden), MATRIX


def shared_mixture(prefix, config):
    """Experts, a router, and one expert that every token passes, with a gate of its own."""
    hidden = config["hidden_size"]
    yield prefix + ".gate.weight", (config["num_experts"], hidden), MATRIX
    for expert in range(config["num_experts"]):
        yield from gated_mlp(f"{prefix}.experts.{expert}", hidden, config["moe_intermediate_size"])
    yield from gated_mlp(prefix + ".shared_expert", hidden, config["shared_expert_intermediate_size"])
    yield prefix + ".shared_expert_gate.weight", (1, hidden), MATRIX


def gemma4_tensors(config):
    hidden, heads, kv_heads = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
    layers, width = config["num_hidden_layers"], config["hidden_size_per_layer_input"]
    own = layers - config["num_kv_shared_layers"]
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden), MATRIX
    yield "model.embed_tokens_per_layer.weight", (config["vocab_size_per_layer_input"], layers * width), MATRIX
    yield "model.per_layer_model_projection.weight", (layers * width, hidden), MATRIX
    yield "model.per_layer_projection_norm.weight", (width,), NORM
    for i in range(layers):
        layer = f"model.layers.{i}."
        dim = config["per_layer_config"].get(str(i), config)["head_dim"]
        for norm in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                     "post_feedforward_layernorm", "post_per_layer_input_norm"):
            yield f"{layer}{norm}.weight", (hidden,), NORM
        yield layer + "layer_scalar", (1,), NORM
        matrices = [("q_proj", heads * dim, hidden), ("o_proj", hidden, heads * dim)]
        matrices += [("k_proj", kv_heads * dim, hidden), ("v_proj", kv_heads * dim, hidden)] if i < own else []
        for name, rows, columns in matrices:
            yield f"{layer}self_attn.{name}.weight", (rows, columns), MATRIX
        for norm in ("q_norm", "k_norm") if i < own else ("q_norm",):
            yield f"{layer}self_attn.{norm}.weight", (dim,), NORM
        yield from gated_mlp(layer + "mlp", hidden, config["intermediate_size"] * (1 if i < own else 2))
        yield layer + "per_layer_input_gate.weight", (width, hidden), MATRIX
        yield layer + "per_layer_projection.weight", (hidden, width), MATRIX
    yield "model.norm.weight", (hidden,), NORM


def lfm2_tensors(config):
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    dim = hidden // config["num_attention_heads"]
    kv_rows = config["num_key_value_heads"] * dim
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden), MATRIX
    for i, kind in enumerate(config["layer_types"]):
        layer = f"model.layers.{i}."
        for norm in ("operator_norm", "ffn_norm"):
            yield f"{layer}{norm}.weight", (hidden,), NORM
        for name, rows, columns in (("w1", ffn, hidden), ("w2", hidden, ffn), ("w3", ffn, hidden)):
            yield f"{layer}feed_forward.{name}.weight", (rows, columns), MATRIX
        if kind == "full_attention":
            for name, rows, columns in (("q_proj", hidden, hidden), ("k_proj", kv_rows, hidden), ("v_proj", kv_rows, hidden),
                                        ("out_proj", hidden, hidden)):
                yield f"{layer}self_attn.{name}.weight", (rows, columns), MATRIX
            for norm in ("q_layernorm", "k_layernorm"):
                yield f"{layer}self_attn.{norm}.weight", (dim,), NORM
            continue
        yield layer + "conv.in_proj.weight", (3 * hidden, hidden), MATRIX
        yield layer + "conv.conv.weight", (hidden, 1, config["conv_L_cache"]), MATRIX
        yield layer + "conv.out_proj.weight", (hidden, hidden), MATRIX
    yield "model.embedding_norm.weight", (hidden,), NORM


TENSORS = {"gpt2": gpt2_tensors, "llama": llama_tensors, "qwen3_moe": llama_tensors, "qwen3_5_text": qwen35_tensors,
           "qwen3_5_moe_text": qwen35_tensors, "gemma4_text": gemma4_tensors, "lfm2": lfm2_tensors}


def tensors(config):
    return list(TENSORS[config["model_type"]](config))


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
