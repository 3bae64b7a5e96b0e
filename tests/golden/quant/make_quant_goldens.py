# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of checkpoints with integer weights: tiny Llama models as each publisher writes them, and the logits
that transformers computes, in float32 and eager attention, from the dequantised weights.

Each row of FORMATS becomes a folder beside this script: config.json with the format's quantization_config, one
safetensors file, and goldens.json as tests/golden/models has it (without greedy tokens). compressed-tensors packs with the
package of that name, bitsandbytes and torchao quantise and dequantise with their own; GPTQ's and AWQ's files are packed here, by
element, as AutoGPTQ and AutoAWQ document. The dequantised weights are computed in float64 and rounded once. own_logits are
those with the inputs of every product rounded to BF16, of the head's, which stays FP16, to FP16: what products of the
checkpoint's own codes compute.

Usage: make_quant_goldens.py    (transformers, gguf, compressed-tensors 0.20.0, bitsandbytes 0.48, torchao 0.18; CPU)
"""

import functools
import json
import math
import pathlib
import shutil
import sys

import bitsandbytes.functional as bnb
import torch
import transformers
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from safetensors.torch import save_file
from torchao.quantization import Int8WeightOnlyConfig, PerGroup, PerRow, quantize_

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "gguf"))
from make_gguf_goldens import rounded_inputs  # noqa: E402

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 67, "hidden_size": 64,
          "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
          "head_dim": 16, "max_position_embeddings": 128, "hidden_act": "silu", "rms_norm_eps": 1e-05,
          "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
          "rope_theta": 10000.0, "torch_dtype": "float16"}
SHAPES = {"self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64), "self_attn.v_proj": (32, 64),
          "self_attn.o_proj": (64, 64), "mlp.gate_proj": (96, 64), "mlp.up_proj": (96, 64), "mlp.down_proj": (64, 96)}
PROMPTS = {1: [0], 37: [0, 15, 16, 36]}
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # the columns of a word, from its low bits up


def weights_arguments(**more):
    return {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32, "dynamic": False,
            **more}


def compressed(form, weights):
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
            "ignore": ["lm_head"], "kv_cache_scheme": None, "config_groups": {"group_0": {
                "targets": ["Linear"], "output_activations": None, "input_activations": None, "weights": weights}}}


def gptq(**more):
    return {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True, **more}


def torchao_config(group):
    kind = {"_type": "PerGroup", "_version": 1, "_data": {"group_size": group}} if group else {
        "_type": "PerRow", "_version": 1, "_data": {"dim": -1}}
    return {"quant_method": "torchao", "include_input_output_embeddings": False, "modules_to_not_convert": None,
            "untie_embedding_weights": False, "quant_type": {"default": {
                "_type": "Int8WeightOnlyConfig", "_version": 2,
                "_data": {"granularity": kind, "group_size": None, "set_inductor_config": True}}}}


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm",
       "modules_to_not_convert": None}
# Name -> quantization_config, function, what it takes: bits, group (0: a row), symmetric, columns in any order.
FORMATS = {
    "compressed_group4": (compressed("pack-quantized", weights_arguments()), "packed", 4, 32, True, False),
    "compressed_asymmetric4": (compressed("pack-quantized", weights_arguments(symmetric=False)), "packed", 4, 32, False,
                               False),
    "compressed_actorder4": (compressed("pack-quantized", weights_arguments(actorder="group")), "packed", 4, 32, True, True),
    "compressed_channel8": (compressed("pack-quantized", weights_arguments(num_bits=8, strategy="channel")), "packed", 8, 0,
                            True, False),
    "compressed_int8": (compressed("int-quantized", weights_arguments(num_bits=8, strategy="channel", symmetric=False)),
                        "int8", 8, 0, False, False),
    "gptq_symmetric4": (gptq(), "gptq", 4, 32, True, False),
    "gptq_desc_act4": (gptq(desc_act=True, sym=False), "gptq", 4, 32, False, True),
    "gptq_v2_8": (gptq(bits=8, group_size=-1, sym=False, checkpoint_format="gptq_v2"), "gptq", 8, 0, False, False),
    "awq4": (AWQ, "awq", 4, 32, False, False),
    "bitsandbytes_nf4": ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                          "bnb_4bit_use_double_quant": True}, "nf4", 4, 0, True, False),
    "bitsandbytes_int8": ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb8", 8, 0, True, False),
    "torchao_int8": (torchao_config(None), "torchao", 8, 0, True, False),
    "torchao_int8_group": (torchao_config(32), "torchao", 8, 32, True, False),
    "gptq_asymmetric4": (gptq(sym=False), "gptq", 4, 32, False, False),
    "compressed_channel4_bf16": (compressed("pack-quantized", weights_arguments(strategy="channel", group_size=None)),
                                 "packed_bf16", 4, 0, True, False),
}


def quantise(weight, bits, group, symmetric, shuffled, generator, scale_dtype=torch.half):
    """Unsigned codes, scales and zero points [rows, groups], the group of each column, and the float64 values."""
    rows, columns = weight.shape
    group = group or columns
    groups = columns // group
    group_of = torch.arange(columns) // group
    if shuffled:
        group_of = group_of[torch.randperm(columns, generator=generator)]
    top = 2 ** bits - 1
    scales, zeros = torch.empty(rows, groups), torch.empty(rows, groups, dtype=torch.int64)
    for g in range(groups):
        part = weight[:, group_of == g]
        if symmetric:
            scales[:, g], zeros[:, g] = part.abs().amax(1) / (top / 2), 2 ** (bits - 1)
        else:
            low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
            scales[:, g] = (high - low) / top
            zeros[:, g] = (-low / scales[:, g]).round().clamp(1, top).long()  # GPTQ's first version stores one less
    scales = scales.to(scale_dtype)
    spread, zero = scales.double()[:, group_of], zeros[:, group_of]
    codes = (weight.double() / spread + zero).round().clamp(0, top).long()
    return codes, scales, zeros, group_of.int(), ((codes - zero).double() * spread).float()


def words(codes, bits, order=None):
    """int32 [n / codes of a word, m] from codes [n, m], the first in the low bits; order: of the codes in a word."""
    per_word = 32 // bits
    value = codes.reshape(-1, per_word, codes.shape[1])
    packed = torch.zeros(value.shape[0], value.shape[2], dtype=torch.int64)
    for place, index in enumerate(order or range(per_word)):
        packed |= value[:, index] << (place * bits)
    return torch.where(packed >= 2 ** 31, packed - 2 ** 32, packed).int().contiguous()


def packed(prefix, weight, bits, group, symmetric, shuffled, generator, scale_dtype=torch.half):
    codes, scales, zeros, group_of, plain = quantise(weight, bits, group, symmetric, shuffled, generator, scale_dtype)
    middle = 2 ** (bits - 1)
    out = {f"{prefix}.weight_packed": pack_to_int32((codes - middle).to(torch.int8), bits),
           f"{prefix}.weight_scale": scales, f"{prefix}.weight_shape": torch.tensor(weight.shape)}
    if not symmetric:
        out[f"{prefix}.weight_zero_point"] = pack_to_int32((zeros - middle).to(torch.int8), bits, packed_dim=0).contiguous()
    if shuffled:
        out[f"{prefix}.weight_g_idx"] = group_of
    return out, plain


def int8(prefix, weight, bits, group, symmetric, shuffled, generator):
    codes, scales, zeros, _, plain = quantise(weight, bits, group, symmetric, shuffled, generator)
    return {f"{prefix}.weight": (codes - 128).to(torch.int8), f"{prefix}.weight_scale": scales,
            f"{prefix}.weight_zero_point": (zeros - 128).to(torch.int8)}, plain


def gptq_tensors(prefix, weight, bits, group, symmetric, shuffled, generator, offset):
    codes, scales, zeros, group_of, plain = quantise(weight, bits, group, symmetric, shuffled, generator)
    return {f"{prefix}.qweight": words(codes.T, bits), f"{prefix}.qzeros": words(zeros - offset, bits).T.contiguous(),
            f"{prefix}.scales": scales.T.contiguous(), f"{prefix}.g_idx": group_of}, plain


def awq(prefix, weight, bits, group, symmetric, shuffled, generator):
    codes, scales, zeros, _, plain = quantise(weight, bits, group, symmetric, shuffled, generator)
    return {f"{prefix}.qweight": words(codes, bits, AWQ_ORDER).T.contiguous(),
            f"{prefix}.qzeros": words(zeros, bits, AWQ_ORDER).T.contiguous(),
            f"{prefix}.scales": scales.T.contiguous()}, plain


def nf4(prefix, weight, *_):
    # Blocks of 32, so that one row of the model has several.
    codes, state = bnb.quantize_4bit(weight, blocksize=32, compress_statistics=True, quant_type="nf4")
    out = {f"{prefix}.weight": codes, **{f"{prefix}.weight.{name}": value for name, value in state.as_dict(packed=True).items()}}
    return out, bnb.dequantize_4bit(codes, state).float()


def bnb8(prefix, weight, *_):
    row = weight.abs().amax(1)
    codes = (weight * (127 / row)[:, None]).round().to(torch.int8)
    return {f"{prefix}.weight": codes, f"{prefix}.SCB": row}, (codes.double() * (row / 127)[:, None].double()).float()


def torchao(prefix, weight, bits, group, *_):
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    linear.weight = torch.nn.Parameter(weight)
    quantize_(linear, Int8WeightOnlyConfig(granularity=PerGroup(group) if group else PerRow(), version=2))
    stored = {f"{prefix}._weight_{name}": getattr(linear.weight, name).contiguous()
              for name in ("qdata", "scale", "zero_point") if getattr(linear.weight, name) is not None}
    return stored, linear.weight.dequantize().float()


def tensors_of(form, config, bits, group, symmetric, shuffled, generator):
    """The tensors of the checkpoint, and those of the model that they stand for."""
    bf16 = functools.partial(packed, scale_dtype=torch.bfloat16)
    writers = {"packed": packed, "packed_bf16": bf16, "int8": int8, "awq": awq, "nf4": nf4, "bnb8": bnb8, "torchao": torchao}
    stored = {"model.embed_tokens.weight": torch.randn(67, 64, generator=generator) * 0.3,
              "lm_head.weight": torch.randn(67, 64, generator=generator) * 0.3,
              "model.norm.weight": 1 + 0.2 * torch.randn(64, generator=generator)}
    for name in ("input_layernorm", "post_attention_layernorm"):
        stored[f"model.layers.0.{name}.weight"] = 1 + 0.2 * torch.randn(64, generator=generator)
    stored = {name: value.half() for name, value in stored.items()}
    plain = {name: value.float() for name, value in stored.items()}
    for name, (rows, columns) in SHAPES.items():
        prefix = f"model.layers.0.{name}"
        weight = 1.6 / math.sqrt(columns) * torch.randn(rows, columns, generator=generator)
        arguments = (prefix, weight, bits, group, symmetric, shuffled, generator)
        if form == "gptq":
            offset = 0 if config.get("checkpoint_format") == "gptq_v2" else 1
            new, plain[f"{prefix}.weight"] = gptq_tensors(*arguments, offset)
        else:
            new, plain[f"{prefix}.weight"] = writers[form](*arguments)
        stored |= new
    return stored, plain


def logit_rows(model, tokens, positions):
    logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
    return [{"position": p, "values": [round(v, 5) for v in logits[p].tolist()]} for p in positions]


def prompts_of(model, generator):
    tokens = {length: torch.randint(0, 67, (length,), generator=generator).tolist() for length in PROMPTS}
    prompts = [{"tokens": tokens[length], "logits": logit_rows(model, tokens[length], positions), "greedy_tokens": [],
                "greedy_gaps": []} for length, positions in PROMPTS.items()]
    with rounded_inputs(model):
        model.lm_head._forward_pre_hooks.clear()
        model.lm_head.register_forward_pre_hook(lambda _, inputs: (inputs[0].half().float(),))
        for prompt, positions in zip(prompts, PROMPTS.values(), strict=True):
            prompt["own_logits"] = logit_rows(model, prompt["tokens"], positions)
    return prompts


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    for seed, (name, (config, form, *how)) in enumerate(FORMATS.items()):
        generator = torch.Generator().manual_seed(seed)
        stored, plain = tensors_of(form, config, *how, generator)
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": config}, indent=1) + "\n")
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG, attn_implementation="eager")).float().eval()
        model.load_state_dict(plain)
        goldens = {"source": f"transformers {transformers.__version__}, float32, dequantised weights",
                   "prompts": prompts_of(model, generator)}
        (folder / "goldens.json").write_text(json.dumps(goldens, separators=(",", ":")) + "\n")
        print(name, sum(file.stat().st_size for file in folder.iterdir()), "bytes")


if __name__ == "__main__":
    main()
