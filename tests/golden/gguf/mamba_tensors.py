# SPDX-License-Identifier: Apache-2.0
"""Models with Mamba2 layers as llama.cpp's converter writes them: their keys, and what it does to their tensors."""

import gguf
import torch

NEMOTRON = (gguf.MODEL_ARCH.NEMOTRON_H, gguf.MODEL_ARCH.NEMOTRON_H_MOE)
MAMBAS = NEMOTRON + (gguf.MODEL_ARCH.GRANITE_HYBRID,)


def kinds_of(config):
    return config.get("layers_block_type") or config["layer_types"]


def widths(config, kinds, width):
    return [width if kind in kinds else 0 for kind in kinds_of(config)]


def add_mamba(writer, arch, config):
    nemotron = arch in NEMOTRON
    heads, dim = (config["mamba_num_heads"], config["mamba_head_dim"]) if nemotron else (
        config["mamba_n_heads"], config["mamba_d_head"])
    writer.add_ssm_group_count(config["n_groups" if nemotron else "mamba_n_groups"])
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_state_size(config["ssm_state_size" if nemotron else "mamba_d_state"])
    writer.add_ssm_inner_size(heads * dim)
    writer.add_ssm_conv_kernel(config["conv_kernel" if nemotron else "mamba_d_conv"])
    writer.add_head_count_kv(widths(config, ("full_attention",), config["num_key_value_heads"]))
    if not nemotron:
        writer.add_rope_scaling_finetuned(config["position_embedding_type"] == "rope")
        writer.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    if arch == gguf.MODEL_ARCH.NEMOTRON_H_MOE:
        writer.add_expert_shared_feed_forward_length(config["moe_shared_expert_intermediate_size"])
        writer.add_expert_shared_count(config["n_shared_experts"])
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
        writer.add_expert_weights_norm(config["norm_topk_prob"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def mamba_tensors(arch, config, tensors):
    """The rates themselves, vectors of heads and of groups with two dimensions, the shared MLP's projections apart."""
    groups = config["n_groups" if arch in NEMOTRON else "mamba_n_groups"]
    found = {}
    for name, tensor in tensors.items():
        if name.endswith("A_log"):
            tensor = -torch.exp(tensor.float())[:, None]
        elif name.endswith((".mamba.D", ".mixer.D")):
            tensor = tensor.float()[:, None]
        elif name.endswith("dt_bias"):
            name = name.replace("dt_bias", "dt_proj.bias")
        elif name.endswith("conv1d.weight"):
            tensor = tensor.squeeze(1)
        elif name.endswith((".mamba.norm.weight", ".mixer.norm.weight")):
            tensor = tensor.reshape(groups, -1)
        elif ".mixer.experts." in name:
            name = name.replace("backbone.", "model.").replace(".mixer.", ".mlp.")
        found[name] = tensor
    return found


def split_shared(name, tensor, experts):
    """Granite's shared MLP: the layer's MLP where there are no experts."""
    stem, ending = f"blk.{name.split('.')[2]}.ffn_", "_shexp.weight" if experts else ".weight"
    if ".output_linear." in name:
        return [(f"{stem}down{ending}", tensor)]
    half = tensor.shape[0] // 2
    return [(f"{stem}gate{ending}", tensor[:half]), (f"{stem}up{ending}", tensor[half:])]
