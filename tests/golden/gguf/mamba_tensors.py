# SPDX-License-Identifier: Apache-2.0
"""Models with Mamba2 layers as llama.cpp's converter writes them: their keys, and what it does to their tensors."""

import gguf
import torch

NEMOTRON = (gguf.MODEL_ARCH.NEMOTRON_H, gguf.MODEL_ARCH.NEMOTRON_H_MOE)
FALCON = gguf.MODEL_ARCH.FALCON_H1
MAMBA2 = gguf.MODEL_ARCH.MAMBA2
MAMBAS = NEMOTRON + (gguf.MODEL_ARCH.GRANITE_HYBRID, FALCON, MAMBA2)
# Fields of heads, their size, groups, rows of a state and taps.
FIELDS = {arch: ("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel") for arch in NEMOTRON}
FIELDS[MAMBA2] = ("num_heads", "head_dim", "n_groups", "state_size", "conv_kernel")
OTHERS = ("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv")


def kinds_of(config):
    return config.get("layers_block_type") or config["layer_types"]


def widths(config, kinds, width):
    return [width if kind in kinds else 0 for kind in kinds_of(config)]


def add_mamba(writer, arch, config):
    heads, dim, groups, rows, taps = (config[field] for field in FIELDS.get(arch, OTHERS))
    writer.add_ssm_group_count(groups)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_state_size(rows)
    writer.add_ssm_inner_size(heads * dim)
    writer.add_ssm_conv_kernel(taps)
    if arch == MAMBA2:
        return
    if arch == FALCON:
        writer.add_head_count_kv(config["num_key_value_heads"])
        return
    writer.add_head_count_kv(widths(config, ("full_attention",), config["num_key_value_heads"]))
    if arch not in NEMOTRON:
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


def multiplied(config, name, tensor):
    """Falcon-H1's factors, which files do not have: the converter multiplies the weights."""
    gate, down = config["mlp_multipliers"]
    attention = config["attention_in_multiplier"]
    factors = {"down_proj": down, "gate_proj": gate, "k_proj": config["key_multiplier"] * attention, "q_proj": attention,
               "v_proj": attention, "o_proj": config["attention_out_multiplier"], "out_proj": config["ssm_out_multiplier"],
               "lm_head": config["lm_head_multiplier"], "embed_tokens": config["embedding_multiplier"]}
    if name.endswith("in_proj.weight"):
        group = config["mamba_n_groups"] * config["mamba_d_state"]
        rows = [config["mamba_d_ssm"]] * 2 + [group] * 2 + [config["mamba_n_heads"]]
        blocks = torch.repeat_interleave(torch.tensor(config["ssm_multipliers"]), torch.tensor(rows))
        return tensor.float() * config["ssm_in_multiplier"] * blocks[:, None]
    factor = factors.get(name.removesuffix(".weight").rsplit(".", 1)[-1])
    return tensor if factor is None else tensor.float() * factor


def mamba_tensors(arch, config, tensors):
    """The rates themselves, vectors of heads and of groups with two dimensions, the shared MLP's projections apart."""
    groups = config[FIELDS.get(arch, OTHERS)[2]]
    found = {}
    for name, tensor in tensors.items():
        tensor = multiplied(config, name, tensor) if arch == FALCON else tensor
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
