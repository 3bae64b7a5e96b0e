# SPDX-License-Identifier: Apache-2.0
"""Makes the FP8 goldens: tiny Llama checkpoints as each publisher writes them, and their logits.

Each row of FORMATS becomes a folder beside this script: config.json with the format's fields, a safetensors file whose
projections are E4M3 codes with the format's scales (embeddings, norms and lm_head stay BF16), and goldens.json. The
weights are drawn here; no other project's tool is used.

goldens.json: source, format, tokens, and logits by recipe, each a list of {position, values [vocab_size]}:
  fp32       the dequantised weights in float64: what any wide precision approaches
  per_token  each input of a projection quantised by its own row (in 128-column groups where the weights have blocks),
             Q, K and V rounded to BF16 as the KV pages are, the input of lm_head rounded to BF16, the rest float32
  static     the same with one scale per projection input, where the format has them

Usage: make_fp8_goldens.py     (package versions: models/training/requirements.txt)
"""

import json
import math
import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models"))
from float64_reference import attend, rms_norm, rotate  # noqa: E402

E4M3_MAX = 448.0
BLOCK = 128
NUM_TOKENS = 37
POSITIONS = [0, 15, 16, 36]
THETA = 10000.0


def llama(vocab, hidden, heads, kv_heads, head_dim, ffn, layers):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocab, "hidden_size": hidden,
            "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": head_dim, "max_position_embeddings": 128, "hidden_act": "silu",
            "rms_norm_eps": 1e-05, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False,
            "bos_token_id": 1, "eos_token_id": 2, "rope_theta": THETA, "rope_scaling": None, "torch_dtype": "bfloat16"}


SMALL = llama(131, 28, 6, 2, 20, 44, 2)
WIDE = llama(67, 140, 4, 1, 36, 132, 1)  # more than one block in both dimensions


def group(weights, inputs):
    return {"quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed",
            "ignore": ["lm_head"], "kv_cache_scheme": None, "config_groups": {"group_0": {
                "targets": ["Linear"], "output_activations": None,
                "weights": {"num_bits": 8, "type": "float", "symmetric": True, "dynamic": False, **weights},
                "input_activations": {"num_bits": 8, "type": "float", "symmetric": True, **inputs}}}}


MODELOPT = {"producer": {"name": "modelopt", "version": "0.40.0"}, "quantization": {
    "quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}

# Name -> model, quantization_config (None: hf_quant_config.json), weight scaling, scale's name and dtype, whether inputs
# are static, names of KV scales, upper bound of dynamic scales.
FORMATS = {
    "compressed_tensors_tensor": (SMALL, group({"strategy": "tensor"}, {"strategy": "tensor", "dynamic": False}),
                                  "tensor", "weight_scale", torch.bfloat16, True, (), None),
    "compressed_tensors_channel": (SMALL, group({"strategy": "channel"}, {"strategy": "token", "dynamic": True}),
                                   "channel", "weight_scale", torch.bfloat16, False, (), None),
    "compressed_tensors_block": (WIDE, group({"strategy": "block", "block_structure": [BLOCK, BLOCK]},
                                             {"strategy": "group", "group_size": BLOCK, "dynamic": True}),
                                 "block", "weight_scale", torch.bfloat16, False, (), None),
    "modelopt": (SMALL, None, "tensor", "weight_scale", torch.float32, True, ("k_proj.k_scale", "v_proj.v_scale"), None),
    "fbgemm": (SMALL, {"quant_method": "fbgemm_fp8", "activation_scale_ub": 16.0, "modules_to_not_convert": ["lm_head"]},
               "channel", "weight_scale", torch.float32, False, (), 16.0),
    "block128": (WIDE, {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                        "weight_block_size": [BLOCK, BLOCK]}, "block", "weight_scale_inv", torch.float32, False, (), None),
    "autofp8": (SMALL, {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]},
                "tensor", "weight_scale", torch.float32, True, ("kv_scale",), None),
}


def draw_tensors(config, seed):
    generator = torch.Generator().manual_seed(seed)
    hidden, ffn, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q_dim, kv_dim = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim

    def matrix(rows, columns, gain):
        return gain / math.sqrt(columns) * torch.randn(rows, columns, generator=generator)

    def norm():
        return 1.0 + 0.2 * torch.randn(hidden, generator=generator)

    tensors = {"model.embed_tokens.weight": matrix(config["vocab_size"], hidden, 2.0), "model.norm.weight": norm(),
               "lm_head.weight": matrix(config["vocab_size"], hidden, 2.0)}
    shapes = {"self_attn.q_proj": (q_dim, hidden), "self_attn.k_proj": (kv_dim, hidden),
              "self_attn.v_proj": (kv_dim, hidden), "self_attn.o_proj": (hidden, q_dim), "mlp.gate_proj": (ffn, hidden),
              "mlp.up_proj": (ffn, hidden), "mlp.down_proj": (hidden, ffn)}
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        tensors |= {layer + "input_layernorm.weight": norm(), layer + "post_attention_layernorm.weight": norm()}
        # Gains far apart, so that a scale of the wrong part or row shows.
        for j, (name, shape) in enumerate(shapes.items()):
            tensors[f"{layer}{name}.weight"] = matrix(*shape, 0.7 * 1.3 ** j)
    return {name: value.to(torch.bfloat16).contiguous() for name, value in tensors.items()}


def blocks_of(x, row_block, column_block):
    """Index of the scale of every element, and the grid of scales."""
    rows, columns = x.shape
    grid = (-(-rows // row_block), -(-columns // column_block))
    r = torch.arange(rows) // row_block
    c = torch.arange(columns) // column_block
    return r[:, None].expand(rows, columns), c[None, :].expand(rows, columns), grid


def quantize_weight(weight, scaling, dtype):
    """Returns codes and scales in the shape that the format stores."""
    w = weight.float()
    if scaling == "tensor":
        scale = (w.abs().amax() / E4M3_MAX).reshape(1).to(dtype)
        spread = scale.float()
    elif scaling == "channel":
        scale = (w.abs().amax(1, keepdim=True) / E4M3_MAX).to(dtype)
        spread = scale.float()
    else:
        r, c, grid = blocks_of(w, BLOCK, BLOCK)
        amax = torch.tensor([[w[i * BLOCK:(i + 1) * BLOCK, j * BLOCK:(j + 1) * BLOCK].abs().max()
                              for j in range(grid[1])] for i in range(grid[0])])
        scale = (amax / E4M3_MAX).to(dtype)
        spread = scale.float()[r, c]
    codes = (w / spread).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return codes, scale, codes.double() * spread.double()


def quantize_input(x, scale):
    return (x * (1.0 / scale)).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).float() * scale


def quantize_rows(x, group_size, limit):
    """Each row of x by groups of columns, as a dynamic recipe does."""
    out = torch.empty_like(x)
    for first in range(0, x.shape[1], group_size):
        part = x[:, first:first + group_size]
        amax = part.abs().amax(1, keepdim=True)
        amax = amax if limit is None else amax.clamp(max=limit)
        out[:, first:first + group_size] = quantize_input(part, torch.where(amax == 0, torch.ones_like(amax),
                                                                            amax / E4M3_MAX))
    return out


def forward(config, w, tokens, dtype, quantize, narrow):
    """quantize(module, x) makes a projection's input; narrow rounds what the pages and lm_head's input hold."""
    head_dim, epsilon, n = config["head_dim"], config["rms_norm_eps"], len(tokens)
    frequencies = torch.tensor([THETA ** (-2 * i / head_dim) for i in range(head_dim // 2)], dtype=dtype)
    w = {name: value.to(dtype) for name, value in w.items()}
    x = w["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."

        def linear(name, y, layer=layer):
            return quantize(layer + name, y) @ w[f"{layer}{name}.weight"].t()

        y = rms_norm(x, w[layer + "input_layernorm.weight"], epsilon)
        q, k, v = (linear(f"self_attn.{p}_proj", y).view(n, -1, head_dim) for p in "qkv")
        q, k = (rotate(t, frequencies, 1.0) for t in (q, k))
        x = x + linear("self_attn.o_proj", attend(narrow(q), narrow(k), narrow(v)))
        y = rms_norm(x, w[layer + "post_attention_layernorm.weight"], epsilon)
        gate = linear("mlp.gate_proj", y)
        x = x + linear("mlp.down_proj", gate * torch.sigmoid(gate) * linear("mlp.up_proj", y))
    return narrow(rms_norm(x, w["model.norm.weight"], epsilon)) @ w["lm_head.weight"].t()


def rows_of(logits):
    return [{"position": p, "values": [round(v, 5) for v in logits[p].tolist()]} for p in POSITIONS]


def to_bf16(x):
    return x.to(torch.bfloat16).float()


@torch.no_grad()
def make_format(name, seed):
    config, words, scaling, scale_name, scale_dtype, static, kv_names, limit = FORMATS[name]
    tensors = draw_tensors(config, seed)
    tokens = torch.randint(0, config["vocab_size"], (NUM_TOKENS,),
                           generator=torch.Generator().manual_seed(seed + 1)).tolist()
    stored, exact = dict(tensors), dict(tensors)
    for key in [k for k in tensors if k.endswith("_proj.weight")]:
        stored[key], scale, exact[key] = quantize_weight(tensors[key], scaling, scale_dtype)
        stored[key.removesuffix("weight") + scale_name] = scale
    logits = {"fp32": forward(config, exact, tokens, torch.float64, lambda _, x: x, lambda x: x)}
    group_size = BLOCK if scaling == "block" else 1 << 30
    logits["per_token"] = forward(config, exact, tokens, torch.float32,
                                  lambda _, x: quantize_rows(x, group_size, limit), to_bf16)
    if static:
        # The calibration of the publishers: the largest magnitude that each input had, here over half the prompt, so
        # that the other half saturates now and then.
        amax = {}

        def observe(module, x):
            amax[module] = x[:NUM_TOKENS // 2].abs().max()
            return x

        forward(config, exact, tokens, torch.float32, observe, to_bf16)
        scales = {module: (value / E4M3_MAX).reshape(1).to(scale_dtype) for module, value in amax.items()}
        stored |= {module + ".input_scale": scale for module, scale in scales.items()}
        logits["static"] = forward(config, exact, tokens, torch.float32,
                                   lambda module, x: quantize_input(x, scales[module].float()), to_bf16)
    for i in range(config["num_hidden_layers"]):
        stored |= {f"model.layers.{i}.self_attn.{kv}": torch.tensor(0.03125 * (i + 1)) for kv in kv_names}
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    whole = config if words is None else config | {"quantization_config": words}
    (folder / "config.json").write_text(json.dumps(whole, indent=1) + "\n")
    if words is None:
        (folder / "hf_quant_config.json").write_text(json.dumps(MODELOPT, indent=1) + "\n")
    save_file({k: v.contiguous() for k, v in stored.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    goldens = {"source": f"make_fp8_goldens.py; torch {torch.__version__.split('+')[0]}; seed {seed}", "format": name,
               "tokens": tokens, "logits": {recipe: rows_of(values) for recipe, values in logits.items()}}
    (folder / "goldens.json").write_text(json.dumps(goldens, separators=(",", ":")) + "\n")
    norm = logits["fp32"].square().mean().sqrt()
    errors = {recipe: f"{((v - logits['fp32']).square().mean().sqrt() / norm).item():.4f}"
              for recipe, v in logits.items() if recipe != "fp32"}
    print(f"{name}: logits of RMS {norm.item():.2f}; relative RMS difference from fp32 {errors}", flush=True)


def main():
    torch.set_num_threads(1)
    for index, name in enumerate(FORMATS):
        make_format(name, 900 + 10 * index)


if __name__ == "__main__":
    main()
