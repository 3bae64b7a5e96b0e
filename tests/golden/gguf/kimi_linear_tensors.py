# SPDX-License-Identifier: Apache-2.0
"""Kimi Linear as llama.cpp's converter writes it: its keys, and what it does to its tensors."""

import torch


def add_kimi_linear(writer, config):
    rank, key = config["kv_lora_rank"], config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
    writer.add_head_count_kv([1 if kind == "full_attention" else 0 for kind in config["layer_types"]])
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_kda_head_dim(config["linear_head_dim"])
    writer.add_kv_lora_rank(rank)
    writer.add_key_length(rank + config["qk_rope_head_dim"])
    writer.add_value_length(rank)
    writer.add_key_length_mla(key)
    writer.add_value_length_mla(config["v_head_dim"])
    writer.add_rope_dimension_count(config["qk_rope_head_dim"])
    writer.add_expert_shared_count(config["num_shared_experts"])
    writer.add_leading_dense_block_count(config["mlp_layer_types"].count("dense"))
    writer.add_expert_weights_scale(config["routed_scaling_factor"])


def kimi_linear_tensors(tensors):
    """The rates themselves, and taps of convolutions in four dimensions."""
    found = {}
    for name, tensor in tensors.items():
        if name.endswith("A_log"):
            tensor = -torch.exp(tensor.float())
        elif name.endswith("dt_bias"):
            name = name.replace("dt_bias", "dt_proj.bias")
        elif name.endswith("conv1d.weight"):
            tensor = tensor.reshape(1, tensor.shape[0], 1, -1)
        found[name] = tensor
    return found
