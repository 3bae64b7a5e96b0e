# SPDX-License-Identifier: Apache-2.0
"""Gated delta nets as llama.cpp's converter writes them: their keys, and what it does to their tensors."""

import gguf
import torch

TILED = (gguf.MODEL_ARCH.QWEN35, gguf.MODEL_ARCH.QWEN35MOE)
HYBRIDS = TILED + (gguf.MODEL_ARCH.QWEN3NEXT,)


def add_delta(writer, config):
    writer.add_ssm_group_count(config["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_inner_size(config["linear_num_value_heads"] * config["linear_value_head_dim"])
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    sections = (config.get("rope_parameters") or {}).get("mrope_section")
    if sections:
        writer.add_rope_dimension_sections([*sections, 0])


def tiled(tensor, dim, config, first, size):
    """Value heads of `size` rows or columns, from `first` on, in turns of the key heads: 0, r, 2r, ..., 1, r + 1, ..."""
    keys, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
    heads = tensor.narrow(dim, first, values * size).unflatten(dim, (keys, values // keys, size)).transpose(dim, dim + 1)
    return torch.cat((tensor.narrow(dim, 0, first), heads.flatten(dim, dim + 2)), dim)


def delta_tensors(arch, config, tensors):
    """As the converter has them: Qwen3-Next's projections apart, the rates themselves, Qwen 3.5's heads in turns."""
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    width, dim = config["linear_value_head_dim"], config["linear_key_head_dim"]
    values = width * config["linear_num_value_heads"] // config["linear_num_key_heads"]  # of a key head
    found = {}
    for name, tensor in tensors.items():
        stem = name.rpartition("linear_attn.")[0] + "linear_attn."
        if name.endswith("in_proj_qkvz.weight"):
            parts = tensor.unflatten(0, (config["linear_num_key_heads"], -1)).split([dim, dim, values, values], dim=1)
            query, key, value, z = (part.flatten(0, 1) for part in parts)
            found[stem + "in_proj_qkv.weight"], found[stem + "in_proj_z.weight"] = torch.cat((query, key, value)), z
            continue
        if name.endswith("A_log"):
            tensor = -torch.exp(tensor.float())
        elif name.endswith("dt_bias"):
            name = stem + "dt_proj.bias"
        elif name.endswith("conv1d.weight"):
            tensor = tensor.squeeze(1)
        if arch in TILED:
            if name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
                tensor = tiled(tensor, 0, config, 2 * keys, width)
            elif name.endswith("in_proj_z.weight"):
                tensor = tiled(tensor, 0, config, 0, width)
            elif name.endswith("linear_attn.out_proj.weight"):
                tensor = tiled(tensor, 1, config, 0, width)
            elif name.endswith(("in_proj_a.weight", "in_proj_b.weight", "A_log", "dt_proj.bias")):
                tensor = tiled(tensor, 0, config, 0, 1)
        found[name] = tensor
    return found
