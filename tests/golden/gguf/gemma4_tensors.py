# SPDX-License-Identifier: Apache-2.0
"""Gemma 4 as llama.cpp's converter writes it: its keys, which have numbers of layers, and the names of its tensors."""

import numpy as np


def shapes_of(config):
    """The size of a full layer's heads, and the numbers of heads of K of all layers."""
    overrides = config["per_layer_config"]
    full = next(iter(overrides.values()))
    kv_heads = [overrides.get(str(i), {}).get("num_key_value_heads", config["num_key_value_heads"])
                for i in range(config["num_hidden_layers"])]
    return full["head_dim"], kv_heads


def add_gemma4(writer, config):
    full_dim, kv_heads = shapes_of(config)
    shared, width = config["num_kv_shared_layers"], config["intermediate_size"]
    own = config["num_hidden_layers"] - shared
    wide = config["use_double_wide_mlp"]
    writer.add_feed_forward_length([width] * own + [2 * width] * shared if wide else width)
    writer.add_head_count_kv(kv_heads if len(set(kv_heads)) > 1 else kv_heads[0])
    writer.add_shared_kv_layers(shared)
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    writer.add_key_length(full_dim)
    writer.add_value_length(full_dim)
    writer.add_key_length_swa(config["head_dim"])
    writer.add_value_length_swa(config["head_dim"])
    writer.add_rope_dimension_count(full_dim)
    writer.add_rope_dimension_count_swa(config["head_dim"])
    writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    # Pairs of a full layer's heads that do not rotate are divided by so much that their angle is 0.
    rotated = int(full_dim * config["rope_parameters"]["full_attention"]["partial_rotary_factor"] / 2)
    factors = [1.0] * rotated + [1e30] * (full_dim // 2 - rotated)
    writer.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))


def gemma4_name(names, stem):
    """The file's name of a tensor, or None where the package has all of it."""
    layer = stem.split(".")[2]
    if stem.endswith("router.scale"):
        return f"blk.{layer}.ffn_gate_inp.scale"
    if stem.endswith("per_expert_scale"):
        return f"blk.{layer}.ffn_down_exps.scale"
    bare = stem.endswith(("layer_scalar", "gate_up_proj", "experts.down_proj"))
    return names.get_name(stem) + ".weight" if bare else None
