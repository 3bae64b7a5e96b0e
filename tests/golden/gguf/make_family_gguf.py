#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes GGUF goldens of the families beside those of make_gguf_goldens.py, with the names of tensors and keys that the
Python package `gguf` gives each architecture.

NAME.gguf for each row of MODELS: the checkpoint tests/golden/models/NAME as llama.cpp's converter writes it. Its logits
are those of NAME/goldens.json. Where the converter leaves a field of the config out, or cannot write a layer, the row
has the value that readers assume, or the layers that are kept: NAME is then a folder with model.gguf and goldens.json,
the logits of transformers with that config. Where tiny
models are unlike every published one (a head's size that does not follow from the hidden size, an MLP that is not four
times as wide, windows), the keys that say so are written although the converter would not write them.
encoders/NAME.gguf for each row of ENCODERS, likewise.

Usage: make_family_gguf.py [NAME...]     (needs gguf, torch, transformers, safetensors, numpy)
"""

import json
import math
import os
import pathlib
import sys
import tempfile

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from delta_tensors import HYBRIDS, add_delta, delta_tensors
from gemma4_tensors import add_gemma4, gemma4_name
from gpt_oss_tensors import gpt_oss_experts, split_gate
from kimi_linear_tensors import add_kimi_linear, kimi_linear_tensors
from mamba_tensors import MAMBA2, MAMBAS, NEMOTRON, add_mamba, kinds_of, mamba_tensors, split_shared, widths
from make_gguf_goldens import HERE, MODELS_FOLDER, add_tensor, checkpoint_tensors, finish, interleave, logits_of, rotary_factors

Arch = gguf.MODEL_ARCH
TIED = {"tie_word_embeddings": True}
QWEN_LAYERS = {"mlp_only_layers": [], "decoder_sparse_step": 1, "use_sliding_window": False, "layer_types": None}
VL_MOE = {**QWEN_LAYERS, "model_type": "qwen3_moe", "norm_topk_prob": True}  # its layers as those of the text family
YARN_OF_V3 = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 40,
              "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 0.8, "mscale_all_dim": 0.8}
# What readers assume of Llama 4; chunks are longer than the prompts.
LLAMA4_OF_FILES = {"attention_chunk_size": 8192, "floor_scale": 8192, "attn_scale": 0.1, "no_rope_layers": None, "layer_types": None}
# A field of ours: the file is as converters wrote it before the key and value matrices of heads were apart.
KV_B = "older_converter"
# Name -> (architecture, fields that the file cannot say, layers that are kept where not all are).
MODELS = {
    "gemma_tiny": (Arch.GEMMA, TIED), "gemma3_tiny": (Arch.GEMMA3,), "phi3_longrope": (Arch.PHI3,),
    "qwen2_moe_tiny": (Arch.QWEN2MOE, QWEN_LAYERS, [0]), "qwen3_moe_tiny": (Arch.QWEN3MOE, QWEN_LAYERS, [1]),
    "gpt_oss_mxfp4": (Arch.GPT_OSS,), "granite_tiny": (Arch.GRANITE,), "granitemoe_tiny": (Arch.GRANITE_MOE, {}, [0]),
    "olmo3_tiny": (Arch.OLMO2, {}, [0, 3]), "glm_tiny": (Arch.CHATGLM,), "glm4_tiny": (Arch.GLM4,),
    "glm4_moe_tiny": (Arch.GLM4_MOE, {}, [0, 2]),
    "smollm3_tiny": (Arch.SMOLLM3, {"no_rope_layers": None, "no_rope_layer_interval": 4}),
    "cohere2_tiny": (Arch.COHERE2, TIED), "starcoder2_tiny": (Arch.STARCODER2, {"sliding_window": None}),
    "stablelm_tiny": (Arch.STABLELM,), "exaone4_tiny": (Arch.EXAONE4, {}, [0, 3]), "nemotron_tiny": (Arch.NEMOTRON,),
    "falcon_new": (Arch.FALCON,), "bloom_tiny": (Arch.BLOOM,), "ernie45_tiny": (Arch.ERNIE4_5,),
    "seed_oss_tiny": (Arch.SEED_OSS,), "olmoe_tiny": (Arch.OLMOE,), "deepseek_v2_tiny": (Arch.DEEPSEEK2,),
    "deepseek_v3_tiny": (Arch.DEEPSEEK2, {"rope_parameters": YARN_OF_V3}, [0, 1]),
    "deepseek_v2_kv_b": (Arch.DEEPSEEK2, {KV_B: True}, [0, 1]), "glm4_moe_lite_tiny": (Arch.DEEPSEEK2, {}, [0, 2]),
    "minimax_m2_tiny": (Arch.MINIMAXM2, {}, [0]), "arcee_tiny": (Arch.ARCEE,),
    "ministral3_tiny": (Arch.MISTRAL3,), "mistral4_tiny": (Arch.MISTRAL4,),
    "hunyuan_dense_tiny": (Arch.HUNYUAN_DENSE,), "hunyuan_moe_tiny": (Arch.HUNYUAN_MOE,),
    "dots1_tiny": (Arch.DOTS1, {"sliding_window": None, "layer_types": ["full_attention"] * 2}, [0, 1]),
    "exaone_moe_tiny": (Arch.EXAONE_MOE, {}, [0, 2]),
    "granite_h_tiny": (Arch.GRANITE_HYBRID,), "granite_h_dense": (Arch.GRANITE_HYBRID,),
    "nemotron_h_tiny": (Arch.NEMOTRON_H_MOE,), "falcon_h1_tiny": (Arch.FALCON_H1,),
    "mamba2_tiny": (Arch.MAMBA2,), "kimi_linear_tiny": (Arch.KIMI_LINEAR,),
    "glm_moe_dsa_tiny": (Arch.GLM_DSA,),
    "llama4_tiny": (Arch.LLAMA4, LLAMA4_OF_FILES), "mimo_v2_tiny": (Arch.MIMO2,), "step_tiny": (Arch.STEP35,),
    "qwen25_vl_tiny": (Arch.QWEN2VL,), "qwen3_vl_tiny": (Arch.QWEN3VL,), "qwen3_vl_moe_tiny": (Arch.QWEN3VLMOE, VL_MOE, [1]),
    "afmoe_tiny": (Arch.AFMOE,), "ernie45_moe_tiny": (Arch.ERNIE4_5_MOE,),
    "qwen35_tiny": (Arch.QWEN35,), "qwen35moe_tiny": (Arch.QWEN35MOE,), "qwen3next_tiny": (Arch.QWEN3NEXT,),
    "lfm2_tiny": (Arch.LFM2,), "lfm2moe_tiny": (Arch.LFM2MOE,),
    "gemma4_tiny": (Arch.GEMMA4,), "gemma4_e_tiny": (Arch.GEMMA4,), "gemma4_moe_tiny": (Arch.GEMMA4,),
}
# Names that differ from the checkpoint's.
SOURCES = {"deepseek_v2_kv_b": "deepseek_v2_tiny"}
ENCODERS = {"nomic_tiny": Arch.NOMIC_BERT, "modernbert_tiny": Arch.MODERN_BERT}

PERMUTED = (Arch.LLAMA, Arch.GRANITE, Arch.GRANITE_MOE, Arch.GRANITE_HYBRID, Arch.SMOLLM3, Arch.ARCEE, Arch.MISTRAL3)
OFFSET_NORMS = (Arch.GEMMA, Arch.GEMMA3, Arch.NEMOTRON, Arch.QWEN35, Arch.QWEN35MOE, Arch.QWEN3NEXT, Arch.STEP35)
# Layers that predict further tokens, of published configs; their tensors are left out.
PREDICTING = {Arch.MIMO2: 3, Arch.STEP35: 1}
WITH_WINDOWS = (Arch.AFMOE, Arch.LLAMA, Arch.GEMMA3, Arch.GEMMA4, Arch.PHI3, Arch.GPT_OSS, Arch.OLMO2, Arch.COHERE2, Arch.EXAONE4,
                Arch.EXAONE_MOE)
LATENT = (Arch.DEEPSEEK2, Arch.MISTRAL4, Arch.GLM_DSA, Arch.KIMI_LINEAR)
SHORT_CONVS = (Arch.LFM2, Arch.LFM2MOE)
SPARSE_EXPERTS = (Arch.GLM4_MOE, Arch.DEEPSEEK2, Arch.DOTS1, Arch.EXAONE_MOE, Arch.GLM_DSA, Arch.MISTRAL4)
WITH_PATTERN = (Arch.GEMMA3, Arch.GEMMA4, Arch.OLMO2, Arch.EXAONE4, Arch.EXAONE_MOE)


def first(config, *names):
    return next((config[name] for name in names if config.get(name) is not None), None)


def first_rows(tensors, ending):
    """Rows of the first tensor whose name ends so."""
    return next(tensor.shape[0] for name, tensor in tensors.items() if name.endswith(ending))


def heads_of(config):
    """The number of heads, those of K, and their size."""
    heads = first(config, "num_attention_heads", "n_head")
    kv_heads = first(config, "num_key_value_heads") or heads
    if config["model_type"] == "falcon":
        kv_heads = config["num_kv_heads"] if config["new_decoder_architecture"] or not config["multi_query"] else 1
    if config["model_type"] == "bloom":
        kv_heads = heads
    return heads, kv_heads, first(config, "head_dim") or first(config, "hidden_size") // heads


def add_rotation(writer, arch, config):
    if arch in (Arch.KIMI_LINEAR, MAMBA2, *NEMOTRON):
        return
    rope = config.get("rope_parameters") or {}
    sliding, rope = rope.get("sliding_attention"), rope.get("full_attention", rope)
    if arch not in (Arch.BLOOM, Arch.FALCON, Arch.STABLELM):
        dim = heads_of(config)[2]
        writer.add_rope_freq_base(rope["rope_theta"] * rope.get("alpha", 1.0) ** (dim / (dim - 2)))
    if sliding is not None:
        writer.add_rope_freq_base_swa(float(sliding["rope_theta"]))
    if "mrope_section" in rope and arch not in HYBRIDS:
        writer.add_rope_dimension_sections([*rope["mrope_section"], 0])
    kind = rope.get("rope_type")
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    elif kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "mscale_all_dim" in rope:
            writer.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])
        if "beta_fast" in rope:
            writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
            writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
        if "llama_4_scaling_beta" in rope:
            writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    part = rope.get("partial_rotary_factor", 1.0)
    dim = heads_of(config)[2]
    if arch in PERMUTED or part != 1.0 and arch not in (Arch.GEMMA4, Arch.MISTRAL4, Arch.STEP35) or arch in (Arch.PHI3, Arch.COHERE2):
        writer.add_rope_dimension_count(int(dim * part))
    if arch in (Arch.COMMAND_R, Arch.COHERE2, Arch.NEMOTRON):
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    if arch == Arch.PHI3:
        original = config.get("original_max_position_embeddings", config["max_position_embeddings"])
        writer.add_rope_scaling_orig_ctx_len(original)
        if kind == "longrope":
            scale = config["max_position_embeddings"] / original
            writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)))


def add_windows(writer, arch, config):
    window = config.get("sliding_window")
    if arch == Arch.MODERN_BERT:
        writer.add_sliding_window(config["local_attention"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
        writer.add_string("modern-bert.hidden_activation", config["hidden_activation"])
    elif arch == Arch.PHI3 or (arch in WITH_WINDOWS and window):
        writer.add_sliding_window(window or 0)
    if arch in WITH_PATTERN and window:
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])


def add_experts(writer, arch, config):
    count = first(config, "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
    if count is None:
        return
    writer.add_expert_count(count)
    writer.add_expert_used_count(first(config, "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_k"))
    if arch == Arch.LFM2MOE:
        writer.add_leading_dense_block_count(config["num_dense_layers"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
    width = config["intermediate_size"] if arch in (Arch.GPT_OSS, Arch.MINIMAXM2, Arch.HUNYUAN_MOE, Arch.LLAMA4) else config.get("moe_intermediate_size")
    if width:
        writer.add_expert_feed_forward_length(width)
    if arch == Arch.LLAMA4:
        writer.add_interleave_moe_layer_step(config["interleave_moe_layer_step"])
    if arch in (Arch.QWEN2MOE, Arch.QWEN35MOE, Arch.QWEN3NEXT):
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if arch in SPARSE_EXPERTS:
        types = config.get("mlp_layer_types")
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
        writer.add_expert_shared_count(first(config, "n_shared_experts", "num_shared_experts"))
        writer.add_leading_dense_block_count(types.count("dense") if types else config["first_k_dense_replace"])
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
        writer.add_expert_weights_norm(config["norm_topk_prob"])
    if arch == Arch.AFMOE:
        writer.add_expert_shared_count(config["num_shared_experts"])
        writer.add_leading_dense_block_count(config["num_dense_layers"])
        writer.add_expert_weights_scale(config["route_scale"])
        writer.add_expert_weights_norm(config.get("route_norm", True))
    if arch == Arch.ERNIE4_5_MOE:
        writer.add_expert_shared_count(config["moe_num_shared_experts"])
        writer.add_leading_dense_block_count(config["moe_layer_start_index"])
        writer.add_interleave_moe_layer_step(config["moe_layer_interval"])
    if arch in (*SPARSE_EXPERTS, Arch.MINIMAXM2, Arch.KIMI_LINEAR, Arch.AFMOE):
        softmax = config["model_type"] in ("deepseek_v2", "mistral4")
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SOFTMAX if softmax else gguf.ExpertGatingFuncType.SIGMOID)
    if arch == Arch.GLM4_MOE:
        writer.add_nextn_predict_layers(config["num_nextn_predict_layers"])


def add_latent_heads(writer, config):
    """The sizes of the row that a page holds, and of a head; older files have the latter as those of any head."""
    rank, key = config["kv_lora_rank"], config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
    writer.add_kv_lora_rank(rank)
    if config["q_lora_rank"]:
        writer.add_q_lora_rank(config["q_lora_rank"])
    writer.add_rope_dimension_count(config["qk_rope_head_dim"])
    if config.get("index_topk"):
        writer.add_indexer_head_count(config["index_n_heads"])
        writer.add_indexer_key_length(config["index_head_dim"])
        writer.add_indexer_top_k(config["index_topk"])
    older = KV_B in config
    writer.add_head_count_kv(config["num_attention_heads"] if older else 1)
    writer.add_key_length(key if older else rank + config["qk_rope_head_dim"])
    writer.add_value_length(config["v_head_dim"] if older else rank)
    if not older:
        writer.add_key_length_mla(key)
        writer.add_value_length_mla(config["v_head_dim"])


def split_heads(tensors, config):
    """kv_b_proj as a stack of the heads' key matrices, transposed, and one of their value matrices."""
    heads, rows = config["num_attention_heads"], config["qk_nope_head_dim"] + config["v_head_dim"]
    split = {}
    for name, tensor in tensors.items():
        if "kv_b_proj" not in name or KV_B in config:
            split[name] = tensor
            continue
        of_heads = tensor.reshape(heads, rows, -1)
        split[name.replace("kv_b", "k_b")] = of_heads[:, :config["qk_nope_head_dim"]].mT.contiguous()
        split[name.replace("kv_b", "v_b")] = of_heads[:, config["qk_nope_head_dim"]:].contiguous()
    return split


def add_metadata(writer, arch, config, tensors):
    hidden = config["hidden_size"]
    heads, kv_heads, head_dim = heads_of(config)
    predicting = config["num_nextn_predict_layers"] if arch == Arch.GLM4_MOE else PREDICTING.get(arch, 0)
    writer.add_block_count((first(config, "num_hidden_layers", "n_layer") or len(kinds_of(config))) + predicting)
    writer.add_context_length(first(config, "max_position_embeddings", "seq_length", "model_max_length") or 2048)
    writer.add_embedding_length(hidden)
    ffn = 4 * hidden if arch == Arch.BLOOM else first(config, "ffn_hidden_size", "intermediate_size")
    if arch in SHORT_CONVS:
        ffn = first_rows(tensors, "feed_forward.w1.weight")  # as wide as the MLP is
        writer.add_shortconv_l_cache(config["conv_L_cache"])
        kv_heads = [kv_heads if kind == "full_attention" else 0 for kind in config["layer_types"]]
    if arch == MAMBA2:
        ffn, heads = 0, 0
    if arch == Arch.LLAMA4:
        ffn = config["intermediate_size_mlp"]
    if arch in NEMOTRON:
        ffn = widths(config, ("moe",), config["moe_intermediate_size"])
    if arch != Arch.GEMMA4:
        writer.add_feed_forward_length(ffn if ffn or arch == MAMBA2 else config["moe_intermediate_size"])
    if arch in HYBRIDS:
        add_delta(writer, config)
    if arch != Arch.STEP35:
        writer.add_head_count(heads)
    if arch in (Arch.DEEPSEEK2, Arch.MISTRAL4, Arch.GLM_DSA):
        add_latent_heads(writer, config)
    elif arch == Arch.KIMI_LINEAR:
        add_kimi_linear(writer, config)
    elif arch in MAMBAS:
        add_mamba(writer, arch, config)
    elif arch == Arch.GEMMA4:
        add_gemma4(writer, config)
    elif arch == Arch.MIMO2:
        add_mimo(writer, config)
    elif arch == Arch.STEP35:
        add_step(writer, config)
    else:
        writer.add_head_count_kv(kv_heads)
    if config.get("head_dim") and arch not in (Arch.GEMMA4, MAMBA2, *LATENT):
        writer.add_key_length(head_dim)
        writer.add_value_length(config["v_head_dim"] if arch == Arch.MIMO2 else head_dim)
    if (epsilon := first(config, "rms_norm_eps", "norm_eps")) is not None or arch in (MAMBA2, *NEMOTRON):
        writer.add_layer_norm_rms_eps(epsilon or config["layer_norm_epsilon"])
    epsilon = first(config, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")
    if epsilon is not None and arch not in (Arch.MODERN_BERT, MAMBA2, *NEMOTRON):
        writer.add_layer_norm_eps(epsilon)
    add_rotation(writer, arch, config)
    add_windows(writer, arch, config)
    add_experts(writer, arch, config)
    if arch in (Arch.GRANITE, Arch.GRANITE_MOE, Arch.GRANITE_HYBRID):
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if arch in (Arch.COMMAND_R, Arch.COHERE2):
        writer.add_logit_scale(config["logit_scale"])
    if arch == Arch.GEMMA3:
        writer.add_attention_scale(config["query_pre_attn_scalar"] ** -0.5)
    if arch == Arch.STABLELM:
        writer.add_parallel_residual(config["use_parallel_residual"])
    if arch not in ENCODERS.values():
        writer.add_eos_token_id(config.get("eos_token_id", 2))  # of the tokenizer, where the config has none


def add_mimo(writer, config):
    """Of published configs: a token's own key is not of the window."""
    predicting = PREDICTING[Arch.MIMO2]
    kinds = [kind == "sliding_attention" for kind in config["layer_types"]] + [True] * predicting
    kv_heads = config["num_key_value_heads"]
    writer.add_head_count_kv([2 * kv_heads if slides else kv_heads for slides in kinds])
    writer.add_sliding_window(config["sliding_window"] - 1)
    writer.add_sliding_window_pattern(kinds)
    writer.add_float32("mimo2.attention.value_scale", config["attention_value_scale"])
    writer.add_nextn_predict_layers(predicting)


def add_step(writer, config):
    predicting = PREDICTING[Arch.STEP35]
    kinds = [kind == "sliding_attention" for kind in config["layer_types"]] + [True] * predicting
    writer.add_head_count([config["num_sliding_attention_heads" if slides else "num_attention_heads"] for slides in kinds])
    writer.add_head_count_kv([config["num_key_value_heads"]] * len(kinds))
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern(kinds)
    writer.add_expert_shared_feed_forward_length(config["share_expert_dim"])
    writer.add_expert_weights_scale(config["moe_router_scaling_factor"])
    writer.add_expert_weights_norm(True)
    writer.add_swiglu_clamp_exp([limit or 0.0 for limit in config["swiglu_limits"]] + [0.0] * predicting)
    writer.add_swiglu_clamp_shexp([limit or 0.0 for limit in config["swiglu_limits_shared"]] + [0.0] * predicting)
    writer.add_nextn_predict_layers(predicting)
    full = config["rope_parameters"]["full_attention"]
    factors = rotary_factors({"head_dim": int(config["head_dim"] * full["partial_rotary_factor"]), "rope_parameters": full})
    rest = np.ones(config["head_dim"] // 2 - len(factors), dtype=np.float32)  # of sliding layers
    writer.add_tensor("rope_freqs.weight", np.concatenate([factors, rest]))


def llama4_experts(tensors):
    """Stacks of rows, gates and ups apart."""
    split = {}
    for name, tensor in tensors.items():
        if name.endswith("experts.gate_up_proj"):
            gate, up = tensor.mT.chunk(2, dim=1)
            stem = name.replace("gate_up_proj", "{}_proj.weight")
            split |= {stem.format("gate"): gate.contiguous(), stem.format("up"): up.contiguous()}
        elif name.endswith("experts.down_proj"):
            split[name + ".weight"] = tensor.mT.contiguous()
        else:
            split[name] = tensor
    return split


def separate_experts(tensors):
    """Of stacks with a row for each input, as Qwen 3 VL's are published, a tensor of each expert."""
    separate = {}
    for name, tensor in tensors.items():
        stem, found, kind = name.partition(".experts.")
        for index, expert in enumerate(tensor.mT if found else ()):
            parts = zip(("gate_proj", "up_proj"), expert.chunk(2)) if kind == "gate_up_proj" else [(kind, expert)]
            separate |= {f"{stem}.experts.{index}.{part}.weight": rows.contiguous() for part, rows in parts}
        if not found:
            separate[name] = tensor
    return separate


def stacked_experts(tensors):
    """Experts of a tensor each, stacked: Mixtral's w1, w2 and w3, and others' projections."""
    stacks, rest = {}, {}
    for name, tensor in tensors.items():
        head, found, tail = name.partition(".experts.")
        index, _, inner = tail.partition(".")
        if found and index.isdecimal():
            head = head.replace("block_sparse_moe", "feed_forward").removeprefix("model.") if inner.startswith("w") else head
            stacks.setdefault(f"{head}.experts.{inner}", {})[int(index)] = tensor
        else:
            rest[name] = tensor
    return rest | {name: torch.stack([rows[i] for i in range(len(rows))]) for name, rows in stacks.items()}


def converted(name, tensor, arch, config):
    heads, kv_heads, head_dim = heads_of(config)
    if arch in PERMUTED and (".attn_q." in name or ".attn_k." in name):
        return interleave(tensor, heads if ".attn_q." in name else kv_heads)
    if arch in OFFSET_NORMS and name.endswith("norm.weight") and "ssm_norm" not in name:
        return tensor.float() + 1
    if arch in (Arch.FALCON, Arch.BLOOM) and ".attn_qkv." in name:
        rows = tensor.reshape(kv_heads, heads // kv_heads + 2, head_dim, -1)
        return torch.cat([rows[:, :-2].flatten(0, 2), rows[:, -2].flatten(0, 1), rows[:, -1].flatten(0, 1)]).reshape(tensor.shape)
    return tensor


def write(path, arch, config, tensors, kinds=None, more=None, change=None):
    """kinds: types of matrices by the file's names. more(writer) adds keys. change(name, tensor): what is written of it."""
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    add_metadata(writer, arch, config, tensors)
    if more is not None:
        more(writer)
    names = gguf.get_tensor_name_map(arch, first(config, "num_hidden_layers", "n_layer") or len(kinds_of(config)))
    if arch in LATENT:
        tensors = split_heads(tensors, config)
    if arch == Arch.KIMI_LINEAR:
        tensors = kimi_linear_tensors(tensors)
    if arch in HYBRIDS:
        tensors = delta_tensors(arch, config, tensors)
    if arch in MAMBAS:
        tensors = mamba_tensors(arch, config, tensors)
    if arch == Arch.GPT_OSS:
        tensors = gpt_oss_experts(writer, tensors)
    if arch == Arch.LLAMA4:
        tensors = llama4_experts(tensors)
        writer.add_tensor("rope_freqs.weight", rotary_factors(config))
    for hf_name, tensor in sorted(stacked_experts(tensors).items()):
        if hf_name == "lm_head.weight" and config.get("tie_word_embeddings") or hf_name.startswith(("head.", "decoder.")):
            continue
        if arch == Arch.MISTRAL4 and hf_name.endswith(("experts.down_proj", "experts.gate_up_proj")):
            hf_name += ".weight"
        hf_name = hf_name.replace("e_score_correction_bias", "e_score_correction.bias").removeprefix("bert.")
        if arch == Arch.MIMO2:
            hf_name = hf_name.replace("attention_sink_bias", "attention_sink_bias.weight")
        if arch == Arch.STEP35:
            hf_name = hf_name.replace("router_bias", "router_bias.bias")
        if arch in (Arch.AFMOE, *SHORT_CONVS):
            hf_name = hf_name.replace("expert_bias", "expert_bias.bias")
        if arch in SHORT_CONVS:
            tensor = tensor.squeeze(1) if hf_name.endswith("conv.conv.weight") else tensor
        for arches, prefix in (((Arch.MODERN_BERT,), "model."), ((Arch.BLOOM,), "transformer.")):
            hf_name = hf_name.removeprefix(prefix) if arch in arches else hf_name
        if ".shared_mlp." in hf_name and arch != Arch.HUNYUAN_MOE:
            for name, value in split_shared(hf_name, tensor, config["num_local_experts"] > 0):
                add_tensor(writer, name, value)
            continue
        parts = [("", hf_name, tensor)]
        if ".input_linear." in hf_name:
            parts = split_gate(hf_name, tensor)
        for part, stem, value in parts:
            if part:
                name = f"blk.{stem.split('.')[2]}.ffn_{part}_exps.weight"
            else:
                name = gemma4_name(names, stem) if arch == Arch.GEMMA4 and ".layers." in stem else None
                name = name or names.get_name(stem, try_suffixes=(".weight", ".bias"))
                if name is None and arch == Arch.QWEN3NEXT:  # whose published models have no dense layers
                    name = gguf.get_tensor_name_map(Arch.QWEN35, 4).get_name(stem, try_suffixes=(".weight",))
            if name is None:
                raise SystemExit(f"{path.name}: no name for {stem}")
            wide = ("ffn_gate_inp", "token_types", "_norm.", "exp_probs_b", "shortconv.conv", "ssm_a", "ssm_conv1d", "ssm_d")
            always_wide = any(part in name for part in wide)
            value = converted(name, value, arch, config)
            value = value if change is None or always_wide else change(name, value)
            add_tensor(writer, name, value.float() if always_wide else value, (kinds or {}).get(name))
    if arch == Arch.PHI3 and config["rope_parameters"]["rope_type"] == "longrope":
        for length in ("long", "short"):
            factors = np.array(config["rope_parameters"][f"{length}_factor"], dtype=np.float32)
            writer.add_tensor(f"rope_factors_{length}.weight", factors)
    finish(writer)
    print(f"{os.path.relpath(path, HERE)}: {path.stat().st_size} bytes", flush=True)


def rows_of(model, prompt):
    logits = logits_of(model, prompt["tokens"])
    return [{"position": row["position"], "values": [round(v, 5) for v in logits[row["position"]].tolist()]}
            for row in prompt["logits"]]


def write_goldens(folder, prompts):
    source = f"transformers {transformers.__version__}, float32, eager attention"
    (folder / "goldens.json").write_text(
        json.dumps({"source": source, "prompts": prompts}, separators=(",", ":")) + "\n")


def keep_layers(tensors, config, layers):
    """The model of those layers alone."""
    kept = {}
    for name, tensor in tensors.items():
        parts = name.split(".")
        if parts[1] == "layers" and int(parts[2]) not in layers:
            continue
        if parts[1] == "layers":
            parts[2] = str(layers.index(int(parts[2])))
        kept[".".join(parts)] = tensor
    types = {name: config[name] for name in ("layer_types", "mlp_layer_types") if config.get(name)}
    kept_types = {name: [values[i] for i in layers] for name, values in types.items()}
    return kept, config | {"num_hidden_layers": len(layers), "layer_types": None} | kept_types


def text_part(tensors, config):
    """Of a multimodal model the text model, as one of its own."""
    if "text_config" not in config:
        return tensors, config
    prefix = "language_model."
    tensors = {name.replace("model.language_model.", "model."): tensor for name, tensor in tensors.items() if "visual." not in name}
    if not any(name.startswith(prefix) for name in tensors):
        tensors = {prefix + name: tensor for name, tensor in tensors.items() if name.startswith(("model.", "lm_head."))}
    inner = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    return inner, config["text_config"] | {"tie_word_embeddings": config["tie_word_embeddings"]}


def write_model(name):
    arch, assumed, layers = MODELS[name] + ({}, None)[len(MODELS[name]) - 1:]
    source = MODELS_FOLDER / SOURCES.get(name, name)
    config = json.loads((source / "config.json").read_text())
    tensors, config = text_part(checkpoint_tensors(source), config)
    if arch == Arch.QWEN3VLMOE:
        tensors = separate_experts(tensors)
    if not assumed and layers is None:
        return write(HERE / f"{name}.gguf", arch, config, tensors)
    if layers is not None:
        tensors, config = keep_layers(tensors, config, layers)
    config |= assumed
    if config["tie_word_embeddings"]:
        tensors.pop("lm_head.weight")  # transformers would take it all the same
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    write(folder / "model.gguf", arch, config, tensors)
    with tempfile.TemporaryDirectory() as temp:
        save_file(tensors, pathlib.Path(temp) / "model.safetensors", metadata={"format": "pt"})
        (pathlib.Path(temp) / "config.json").write_text(json.dumps(config))
        loaded = transformers.AutoModelForCausalLM.from_pretrained(
            temp, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
    prompts = json.loads((source / "goldens.json").read_text())["prompts"][-2:]
    write_goldens(folder, [{"tokens": prompt["tokens"], "logits": rows_of(loaded, prompt), "greedy_tokens": [],
                            "greedy_gaps": []} for prompt in prompts])


def write_encoder(name):
    """With a tokenizer where its form is WordPiece."""
    source = HERE.parent / "encoders" / name
    config = json.loads((source / "config.json").read_text())
    write(HERE / "encoders" / f"{name}.gguf", ENCODERS[name], config, checkpoint_tensors(source))


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in sys.argv[1:] or [*MODELS, *ENCODERS]:
        write_encoder(name) if name in ENCODERS else write_model(name)


if __name__ == "__main__":
    main()
