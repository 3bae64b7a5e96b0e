#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens experts_q4 and deepseek_q8: random mixtures of experts as llama.cpp's converter and its quantiser
write them. Experts are stacked in Q4_0 and Q8_0, and in deepseek_q8 the matrices of the heads in Q8_0. goldens.json has
the logits of the dequantised weights by transformers and, of experts_q4, as own_logits those with the inputs of every
product but the router's rounded to BF16, in the attention too.

Usage: make_expert_gguf.py     (needs gguf, torch, transformers, safetensors, numpy)
"""

import json
import pathlib
import sys
import tempfile

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Type
from safetensors.torch import save_file

from make_family_gguf import Arch, HERE, rows_of, write, write_goldens

EXPERTS = {"model_type": "mixtral", "vocab_size": 96, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
           "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 3,
           "num_experts_per_tok": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "eos_token_id": 2,
           "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "tie_word_embeddings": False,
           "sliding_window": None}
EXPERT_TYPES = {"attn_q": Type.Q4_0, "attn_k": Type.Q4_0, "attn_v": Type.Q8_0, "attn_output": Type.Q4_0,
                "ffn_gate_exps": Type.Q4_0, "ffn_up_exps": Type.Q4_0, "ffn_down_exps": Type.Q8_0}
# Sizes are those that Q8_0 takes: multiples of 32.
DEEPSEEK = {"model_type": "deepseek_v3", "vocab_size": 48, "hidden_size": 32, "intermediate_size": 64,
            "moe_intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
            "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 8, "v_head_dim": 32,
            "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 2, "topk_group": 1,
            "first_k_dense_replace": 1, "routed_scaling_factor": 1.5, "norm_topk_prob": True, "rms_norm_eps": 1e-6,
            "max_position_embeddings": 128, "eos_token_id": 2, "attention_bias": False, "tie_word_embeddings": False,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
PROMPT = [1, 5, 47, 0, 17, 42, 42, 3, 38, 11, 7, 12, 29, 30, 31, 40, 2, 14, 33]


def deepseek_tensors():
    """As transformers names them in a directory."""
    torch.manual_seed(12)
    tensors = {}

    def draw(name, *shape, mean=0.0, scale=0.25):
        tensors[name + ".weight"] = mean + scale * torch.randn(shape)

    def mlp(stem, width):
        draw(stem + "gate_proj", width, 32)
        draw(stem + "up_proj", width, 32)
        draw(stem + "down_proj", 32, width)

    draw("model.embed_tokens", 48, 32)
    draw("lm_head", 48, 32)
    draw("model.norm", 32, mean=1.0)
    for layer in range(2):
        stem = f"model.layers.{layer}."
        for norm, width in (("input_layernorm", 32), ("post_attention_layernorm", 32), ("self_attn.q_a_layernorm", 32),
                            ("self_attn.kv_a_layernorm", 32)):
            draw(stem + norm, width, mean=1.0)
        for part, rows, columns in (("q_a_proj", 32, 32), ("q_b_proj", 80, 32), ("kv_a_proj_with_mqa", 40, 32),
                                    ("kv_b_proj", 128, 32), ("o_proj", 32, 64)):
            draw(stem + "self_attn." + part, rows, columns)
    mlp("model.layers.0.mlp.", 64)
    draw("model.layers.1.mlp.gate", 4, 32, scale=0.5)
    tensors["model.layers.1.mlp.gate.e_score_correction_bias"] = 0.1 * torch.randn(4)
    mlp("model.layers.1.mlp.shared_experts.", 32)
    for expert in range(4):
        mlp(f"model.layers.1.mlp.experts.{expert}.", 32)
    return tensors


def deepseek_kinds():
    kinds = {"token_embd.weight": Type.Q8_0, "output.weight": Type.Q8_0}
    for layer in range(2):
        for part in ("attn_q_a", "attn_q_b", "attn_kv_a_mqa", "attn_k_b", "attn_v_b", "attn_output", "ffn_gate", "ffn_up",
                     "ffn_down", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_shexp", "ffn_up_shexp",
                     "ffn_down_shexp"):
            kinds[f"blk.{layer}.{part}.weight"] = Type.Q8_0
    return kinds


def dequantised_deepseek(path, tensors):
    """The tensors with the values that the file has."""
    values, names = dequantised(path), gguf.get_tensor_name_map(Arch.DEEPSEEK2, 2)
    result = {}
    for name, tensor in tensors.items():
        stem, expert = name, None
        if ".experts." in name:
            head, tail = name.split(".experts.")
            index, inner = tail.split(".", 1)
            stem, expert = f"{head}.experts.{inner}", int(index)
        if "kv_b_proj" in name:
            layer = name.split(".")[2]
            key, value = values[f"blk.{layer}.attn_k_b.weight"], values[f"blk.{layer}.attn_v_b.weight"]
            result[name] = torch.cat([key.mT, value], dim=1).reshape(tensor.shape)
            continue
        stem = stem.replace("e_score_correction_bias", "e_score_correction.bias")
        value = values[names.get_name(stem, try_suffixes=(".weight", ".bias"))]
        result[name] = (value if expert is None else value[expert]).reshape(tensor.shape).contiguous()
    return result


def make_deepseek():
    folder = HERE / "deepseek_q8"
    folder.mkdir(exist_ok=True)
    path = folder / "model.gguf"
    tensors = deepseek_tensors()
    write(path, Arch.DEEPSEEK2, DEEPSEEK, tensors, deepseek_kinds())
    with tempfile.TemporaryDirectory() as temp:
        save_file(dequantised_deepseek(path, tensors), pathlib.Path(temp) / "model.safetensors", metadata={"format": "pt"})
        (pathlib.Path(temp) / "config.json").write_text(json.dumps(DEEPSEEK))
        model = transformers.AutoModelForCausalLM.from_pretrained(
            temp, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
    prompt = {"tokens": PROMPT, "logits": [{"position": position} for position in (0, 8, 18)], "greedy_tokens": [],
              "greedy_gaps": []}
    write_goldens(folder, [prompt | {"logits": rows_of(model, prompt)}])


def quantised_experts():
    """The weights of a mixture, as transformers names them, and the types of the file's matrices."""
    torch.manual_seed(11)
    tensors, kinds = {}, {"token_embd.weight": Type.Q8_0, "output.weight": Type.Q8_0}

    def draw(name, *shape, mean=0.0, scale=0.2):
        tensors[name] = mean + scale * torch.randn(shape)

    draw("model.embed_tokens.weight", 96, 64)
    draw("lm_head.weight", 96, 64)
    draw("model.norm.weight", 64, mean=1.0, scale=0.1)
    for layer in range(2):
        stem = f"model.layers.{layer}."
        kinds |= {f"blk.{layer}.{part}.weight": kind for part, kind in EXPERT_TYPES.items()}
        draw(stem + "input_layernorm.weight", 64, mean=1.0, scale=0.1)
        draw(stem + "post_attention_layernorm.weight", 64, mean=1.0, scale=0.1)
        draw(stem + "block_sparse_moe.gate.weight", 3, 64, scale=0.5)
        for part, rows, columns in (("q", 64, 64), ("k", 32, 64), ("v", 32, 64), ("o", 64, 64)):
            draw(stem + f"self_attn.{part}_proj.weight", rows, columns)
        for expert in range(3):
            for part, rows, columns in (("w1", 64, 64), ("w2", 64, 64), ("w3", 64, 64)):
                draw(stem + f"block_sparse_moe.experts.{expert}.{part}.weight", rows, columns)
    return tensors, kinds


def dequantised(path):
    """The values of a file by its own names, rows of Q and K in transformers' order."""
    values = {}
    for tensor in gguf.GGUFReader(path).tensors:
        value = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
        shape = [int(side) for side in reversed(tensor.shape)]
        values[tensor.name] = value.reshape(shape)
        if ".attn_q." in tensor.name or ".attn_k." in tensor.name:
            halves = values[tensor.name].reshape(shape[0] // 16, 8, 2, shape[1])
            values[tensor.name] = halves.swapaxes(1, 2).reshape(shape)
    return values


class rounded_products:
    """Rounds the inputs of every product but the router's, and queries, keys and values, to BF16."""

    def __init__(self, model):
        self.modeling = sys.modules[type(model).__module__]

    def __enter__(self):
        rounded = lambda x: x.bfloat16().float()
        self.linear, self.attention = torch.nn.functional.linear, self.modeling.eager_attention_forward
        num_experts = EXPERTS["num_local_experts"]
        torch.nn.functional.linear = lambda x, weight, bias=None: self.linear(
            x if weight.shape[0] == num_experts else rounded(x), weight, bias)
        self.modeling.eager_attention_forward = lambda module, query, key, value, *rest, **named: self.attention(
            module, rounded(query), rounded(key), rounded(value), *rest, **named)

    def __exit__(self, *_):
        torch.nn.functional.linear = self.linear
        self.modeling.eager_attention_forward = self.attention


def make_experts():
    folder = HERE / "experts_q4"
    folder.mkdir(exist_ok=True)
    path = folder / "model.gguf"
    tensors, kinds = quantised_experts()
    write(path, Arch.LLAMA, EXPERTS, tensors, kinds)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(**EXPERTS), dtype=torch.float32, attn_implementation="eager").eval()
    model.set_experts_implementation("eager")
    values = dequantised(path)
    names = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
             "post_attention_layernorm": "ffn_norm", "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v",
             "o_proj": "attn_output", "gate": "ffn_gate_inp", "down_proj": "ffn_down_exps"}
    for name, parameter in model.named_parameters():
        parts = name.removesuffix(".weight").split(".")
        prefix = f"blk.{parts[2]}." if "layers" in parts else ""
        if parts[-1] == "gate_up_proj":
            value = torch.cat([values[f"{prefix}ffn_{part}_exps.weight"] for part in ("gate", "up")], dim=1)
        else:
            value = values[f"{prefix}{names[parts[-1]]}.weight"]
        parameter.copy_(value)
    prompt = {"tokens": [1, 5, 95, 0, 17, 42, 42, 3, 88, 61, 7, 12, 29, 30, 31, 90, 2, 64, 33],
              "logits": [{"position": position} for position in (0, 8, 18)], "greedy_tokens": [], "greedy_gaps": []}
    wide = rows_of(model, prompt)
    with rounded_products(model):
        prompt["own_logits"] = rows_of(model, prompt)
    prompt["logits"] = wide
    write_goldens(folder, [prompt])


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    make_experts()
    make_deepseek()


if __name__ == "__main__":
    main()
