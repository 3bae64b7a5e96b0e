#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of checkpoints whose weights are small floats in groups: NVFP4 as compressed-tensors and as NVIDIA's
Model Optimizer write it, MXFP8, MXFP4, and several config groups of compressed-tensors in one checkpoint (NVFP4, FP8 by
channel and 4-bit integers). Folders as make_quant_goldens.py makes them; logits are those of transformers, in float32
and eager attention, with the weights that the compressors of compressed-tensors give for the stored tensors (Model
Optimizer's by its rule: E2M1 code * E4M3 scale * factor). own_logits: with the inputs of every product rounded to BF16.

Usage: make_microscaled_goldens.py    (transformers 5.24, gguf, compressed-tensors 0.20.0; CPU)
"""

import json
import math
import pathlib
import shutil
import sys

import torch
import transformers
from compressed_tensors.compressors.mxfp4.base import MXFP4PackedCompressor
from compressed_tensors.compressors.mxfp8.base import MXFP8QuantizationCompressor
from compressed_tensors.compressors.nvfp4.base import NVFP4PackedCompressor
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from compressed_tensors.quantization import QuantizationScheme
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "gguf"))
from make_gguf_goldens import rounded_inputs  # noqa: E402

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 67, "hidden_size": 64,
          "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
          "head_dim": 16, "max_position_embeddings": 128, "hidden_act": "silu", "rms_norm_eps": 1e-05,
          "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
          "rope_theta": 10000.0, "torch_dtype": "bfloat16"}
SHAPES = {"self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64), "self_attn.v_proj": (32, 64),
          "self_attn.o_proj": (64, 64), "mlp.gate_proj": (96, 64), "mlp.up_proj": (96, 64), "mlp.down_proj": (64, 96)}
PROMPTS = {1: [0], 37: [0, 15, 16, 36]}

NVFP4 = {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "tensor_group", "group_size": 16,
         "dynamic": False, "scale_dtype": "torch.float8_e4m3fn"}
MXFP4 = {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "group", "group_size": 32, "dynamic": False,
         "scale_dtype": "torch.uint8"}
MXFP8 = MXFP4 | {"num_bits": 8}
CHANNEL8 = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "channel", "dynamic": False}
TOKENS8 = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True}
INT4 = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32, "dynamic": False}


def scheme(weights):
    return QuantizationScheme(targets=["Linear"], weights=weights)


def group(weights, targets, inputs=None):
    return {"targets": targets, "output_activations": None, "input_activations": inputs, "weights": weights}


def compressed(form, **groups):
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
            "ignore": ["lm_head"], "kv_cache_scheme": None, "config_groups": groups}


def nvfp4_scales(weight):
    """Scales of groups of 16 that E4M3 holds, and the factor that they are divided by."""
    factor = 448.0 * 6.0 / weight.abs().amax()
    scales = weight.reshape(weight.shape[0], -1, 16).abs().amax(2) / 6.0 * factor
    return scales.to(torch.float8_e4m3fn).float(), factor.reshape(1)


def nvfp4(prefix, weight):
    scales, factor = nvfp4_scales(weight)
    kind = scheme(NVFP4)
    stored = NVFP4PackedCompressor.compress({"weight": weight, "weight_scale": scales, "weight_global_scale": factor}, kind)
    plain = NVFP4PackedCompressor.decompress(
        {"weight_packed": stored["weight_packed"], "weight_scale": stored["weight_scale"].float(),
         "weight_global_scale": factor}, kind)["weight"]
    # The compressor computes in the model's dtype: the same product in float32.
    codes = codes_of(stored["weight_packed"])
    exact = codes * (scales / factor).repeat_interleave(16, 1)
    assert torch.allclose(exact, plain.float(), rtol=2**-7, atol=0), prefix
    return {f"{prefix}.{name}": value for name, value in stored.items()}, exact


VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def codes_of(packed):
    """The E2M1 numbers of bytes, the low half first."""
    return VALUES[torch.stack([packed & 15, packed >> 4], 2).reshape(packed.shape[0], -1).long()]


def modelopt(prefix, weight):
    stored, _ = nvfp4(prefix, weight)
    factor = 1.0 / stored[f"{prefix}.weight_global_scale"]
    scales = stored[f"{prefix}.weight_scale"].to(torch.float8_e4m3fn)
    packed = stored[f"{prefix}.weight_packed"]
    plain = codes_of(packed) * (scales.float() * factor).repeat_interleave(16, 1)
    return {f"{prefix}.weight": packed, f"{prefix}.weight_scale": scales,
            f"{prefix}.weight_scale_2": factor.reshape(()), f"{prefix}.input_scale": torch.tensor(0.01)}, plain


def mx_scales(weight, largest):
    return 2.0 ** torch.ceil(torch.log2(weight.reshape(weight.shape[0], -1, 32).abs().amax(2) / largest))


def mxfp4(prefix, weight):
    scales = mx_scales(weight, 6.0)
    stored = MXFP4PackedCompressor.compress({"weight": weight, "weight_scale": scales}, scheme(MXFP4))
    plain = codes_of(stored["weight_packed"]) * scales.repeat_interleave(32, 1)
    again = MXFP4PackedCompressor.decompress(dict(stored), scheme(MXFP4))["weight"]
    assert torch.equal(again.float(), plain), prefix
    return {f"{prefix}.{name}": value for name, value in stored.items()}, plain


def mxfp8(prefix, weight):
    scales = mx_scales(weight, 448.0)
    stored = MXFP8QuantizationCompressor.compress({"weight": weight, "weight_scale": scales}, scheme(MXFP8))
    plain = stored["weight"].float() * scales.repeat_interleave(32, 1)
    again = MXFP8QuantizationCompressor.decompress(dict(stored), scheme(MXFP8))["weight"]
    assert torch.equal(again.float(), plain), prefix
    return {f"{prefix}.{name}": value for name, value in stored.items()}, plain


def fp8(prefix, weight):
    scales = weight.abs().amax(1, keepdim=True) / 448.0
    codes = (weight / scales).to(torch.float8_e4m3fn)
    return {f"{prefix}.weight": codes, f"{prefix}.weight_scale": scales}, codes.float() * scales


def int4(prefix, weight):
    rows, columns = weight.shape
    scales = (weight.reshape(rows, -1, 32).abs().amax(2) / 7.5).half()
    spread = scales.float().repeat_interleave(32, 1)
    codes = (weight / spread).round().clamp(-8, 7).to(torch.int8)
    return {f"{prefix}.weight_packed": pack_to_int32(codes, 4), f"{prefix}.weight_scale": scales,
            f"{prefix}.weight_shape": torch.tensor(weight.shape)}, codes.float() * spread


MIXED = compressed("mixed-precision", group_0=group(NVFP4, ["re:.*self_attn.*"]),
                   group_1=group(CHANNEL8, ["re:.*down_proj"], TOKENS8), group_2=group(INT4, ["re:.*(gate|up)_proj"]))
# Name -> quantization_config, the writer of a module.
FORMATS = {
    "nvfp4_compressed": (compressed("nvfp4-pack-quantized", group_0=group(NVFP4, ["Linear"])), lambda name: nvfp4),
    "nvfp4_modelopt": ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, lambda name: modelopt),
    "mxfp4_compressed": (compressed("mxfp4-pack-quantized", group_0=group(MXFP4, ["Linear"])), lambda name: mxfp4),
    "mxfp8_compressed": (compressed("mxfp8-quantized", group_0=group(MXFP8, ["Linear"])), lambda name: mxfp8),
    "mixed_groups": (MIXED, lambda name: fp8 if "down" in name else int4 if "mlp" in name else nvfp4),
}


def tensors_of(writer, generator):
    """The tensors of the checkpoint, and those of the model that they stand for."""
    stored = {"model.embed_tokens.weight": torch.randn(67, 64, generator=generator) * 0.3,
              "lm_head.weight": torch.randn(67, 64, generator=generator) * 0.3,
              "model.norm.weight": 1 + 0.2 * torch.randn(64, generator=generator)}
    for name in ("input_layernorm", "post_attention_layernorm"):
        stored[f"model.layers.0.{name}.weight"] = 1 + 0.2 * torch.randn(64, generator=generator)
    stored = {name: value.bfloat16() for name, value in stored.items()}
    plain = {name: value.float() for name, value in stored.items()}
    for name, (rows, columns) in SHAPES.items():
        prefix = f"model.layers.0.{name}"
        weight = 1.6 / math.sqrt(columns) * torch.randn(rows, columns, generator=generator)
        new, plain[f"{prefix}.weight"] = writer(name)(prefix, weight)
        stored |= new
    return {name: value.detach().contiguous() for name, value in stored.items()}, plain


def logit_rows(model, tokens, positions):
    logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
    return [{"position": p, "values": [round(v, 5) for v in logits[p].tolist()]} for p in positions]


def prompts_of(model, generator):
    tokens = {length: torch.randint(0, 67, (length,), generator=generator).tolist() for length in PROMPTS}
    prompts = [{"tokens": tokens[length], "logits": logit_rows(model, tokens[length], positions), "greedy_tokens": [],
                "greedy_gaps": []} for length, positions in PROMPTS.items()]
    with rounded_inputs(model):
        for prompt, positions in zip(prompts, PROMPTS.values(), strict=True):
            prompt["own_logits"] = logit_rows(model, prompt["tokens"], positions)
    return prompts


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    for seed, (name, (config, writer)) in enumerate(FORMATS.items()):
        generator = torch.Generator().manual_seed(100 + seed)
        stored, plain = tensors_of(writer, generator)
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
