# SPDX-License-Identifier: Apache-2.0
"""Experts whose gate and up projections are one tensor, and those in MXFP4, as llama.cpp's converter writes them."""

import torch
from gguf import GGMLQuantizationType as Type

from make_gguf_goldens import add_tensor


def mxfp4_blocks(codes, scales):
    """ggml's blocks: a scale, then the codes j and j + 16 in byte j."""
    pairs = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)  # [..., 32]
    packed = torch.cat((scales[..., None], pairs[..., :16] | (pairs[..., 16:] << 4)), dim=-1)
    return packed.flatten(-2).contiguous().numpy()


def split_gate(name, tensor):
    """GPT-OSS's interleaved and Granite's consecutive gate and up projections as one tensor each."""
    if ".input_linear." in name:
        half = tensor.shape[1] // 2
        stem = name.replace("input_linear.weight", "")
        return [("gate", stem, tensor[:, :half]), ("up", stem, tensor[:, half:])]
    return [("gate", name, tensor[:, ::2]), ("up", name, tensor[:, 1::2])]


def gpt_oss_experts(writer, tensors):
    """Writes the experts and returns the other tensors."""
    rest = {}
    for name, tensor in tensors.items():
        if ".experts." not in name:
            rest[name + ".weight" if name.endswith("sinks") else name] = tensor
            continue
        if name.endswith("_scales"):
            continue
        layer = name.split(".")[2]
        ending = "bias" if name.endswith("_bias") else "weight"
        parts = [("down", "", tensor)] if "down_proj" in name else split_gate("", tensor)
        if name.endswith("_blocks"):
            scales = tensors[name.removesuffix("_blocks") + "_scales"]
            all_scales = {"down": scales} if "down_proj" in name else {"gate": scales[:, ::2], "up": scales[:, 1::2]}
            for part, _, codes in parts:
                writer.add_tensor(f"blk.{layer}.ffn_{part}_exps.weight", mxfp4_blocks(codes, all_scales[part]),
                                  raw_dtype=Type.MXFP4)
            continue
        if ending == "weight":  # stored transposed
            parts = [("down", "", tensor.mT)] if "down_proj" in name else split_gate("", tensor.mT)
        for part, _, value in parts:
            add_tensor(writer, f"blk.{layer}.ffn_{part}_exps.{ending}", value.float() if ending == "bias" else value)
    return rest
