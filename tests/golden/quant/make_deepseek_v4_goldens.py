#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden of DeepSeek V4's files as they are published: matrices of the attention and of shared experts in E4M3 with
a scale for each block of 128 by 128, experts in E2M1, two in a byte, with a scale for 32 columns; scales are powers of two
(E8M0), named "scale". All else is BF16 or FP32. A folder as make_quant_goldens.py makes them; logits are those of
transformers, in float32 and eager attention, with the weights that the stored tensors stand for.

Usage: make_deepseek_v4_goldens.py    (transformers 5.23; CPU)
"""

import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models"))
import make_family_goldens as family  # noqa: E402
import make_goldens  # noqa: E402
from family_configs import DEEPSEEK4_ROPE  # noqa: E402

FOLDER = HERE / "deepseek_v4_fp4"
# Blocks that end within a group's rows (70 of o_lora_rank), rows and columns of several blocks and of a part of one.
FIELDS = {"hidden_size": 160, "num_attention_heads": 4, "num_key_value_heads": 1, "num_hidden_layers": 3, "head_dim": 16,
          "q_lora_rank": 22, "partial_rotary_factor": 0.5, "o_groups": 2, "o_lora_rank": 70, "sliding_window": 6,
          "index_n_heads": 16, "index_head_dim": 12, "index_topk": 3, "intermediate_size": 32, "n_routed_experts": 6,
          "num_experts_per_tok": 2, "hc_mult": 2, "hc_sinkhorn_iters": 4, "swiglu_limit": 1.5, "rope_parameters": DEEPSEEK4_ROPE,
          "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
          "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
          "mlp_layer_types": ["hash_moe", "moe", "moe"]}
QUANTIZATION = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "scale_fmt": "ue8m0",
                "weight_block_size": [128, 128]}
FP8 = ("attn.wq_a", "attn.wq_b", "attn.wkv", "attn.wo_a", "attn.wo_b", "attn.indexer.wq_b", "shared_experts.w1",
       "shared_experts.w2", "shared_experts.w3")
PUBLISHED = {"embed_tokens.": "embed.", "hc_head.hc_": "hc_head_", "attn.norm.": "attn.kv_norm."}
BLOCK = 128
VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def exponents(amax, largest):
    """The least powers of two with which no magnitude is above `largest`; of zeros the least of all."""
    return torch.where(amax > 0, torch.ceil(torch.log2(amax / largest)), torch.tensor(-127.0))


def blocks(rows):
    """Of a matrix the largest magnitude of each block, and each element's block."""
    index = [torch.arange(size) // BLOCK for size in rows.shape]
    amax = torch.stack([torch.stack([rows[index[0] == i][:, index[1] == j].abs().max() for j in index[1].unique()])
                        for i in index[0].unique()])
    return amax, (index[0][:, None], index[1][None, :])


def fp8(weight):
    amax, of = blocks(weight)
    power = exponents(amax, 448.0)
    scales = torch.exp2(power)
    codes = (weight / scales[of]).to(torch.float8_e4m3fn)
    return codes, (power + 127).to(torch.uint8).view(torch.float8_e8m0fnu), codes.float() * scales[of]


def fp4(weight):
    groups = weight.reshape(len(weight), -1, 32)
    power = exponents(groups.abs().amax(2), 6.0)
    scaled = groups / torch.exp2(power)[..., None]
    codes = ((scaled.abs()[..., None] - VALUES).abs().argmin(-1) + 8 * (scaled < 0)).reshape(weight.shape)
    packed = (codes[:, 0::2] + 16 * codes[:, 1::2]).to(torch.uint8).view(torch.int8)
    scales = (power + 127).to(torch.uint8).view(torch.float8_e8m0fnu)
    plain = Fp8Dequantize(None)._dequantize_one(packed, scales, torch.float32)
    ours = torch.where(codes < 8, 1.0, -1.0) * VALUES[codes % 8] * torch.exp2(power).repeat_interleave(32, 1)
    assert torch.equal(plain, ours)
    return packed, scales, plain


def published(tensors):
    """The tensors as they are published, and those of save_pretrained that they stand for."""
    stored, plain = {}, {}
    for name, tensor in tensors.items():
        module = name.removesuffix(".weight")
        new = name
        for alias, own in PUBLISHED.items():
            new = new.replace(alias, own).removeprefix("model.")
        writer = fp4 if ".experts." in name else fp8 if module.endswith(FP8) else None
        if writer is None:
            fp32 = name.endswith(("attn_sink", "ape", "gate.bias")) or "hc_" in name
            stored[new] = tensor.float() if fp32 else tensor
            plain[name] = tensor
            continue
        stored[new], stored[new.removesuffix("weight") + "scale"], plain[name] = writer(tensor.float())
    predicting = {f"mtp.0.{name.split('.', 2)[2]}": tensor.clone() for name, tensor in stored.items()
                  if name.startswith(("layers.2.ffn.experts.0.w2", "layers.2.attn.wq_b"))}
    return stored | predicting, plain


def empty_groups(model):
    """A matrix with groups of zeros, and one with a group far below the others."""
    experts = model.model.layers[1].mlp.experts
    experts.gate_up_proj[0, 3, :64] = 0.0
    experts.gate_up_proj[1, 5, 32:64] *= 2.0**-17


@torch.no_grad()
def make(seed):
    model = family.build("deepseek_v4", FIELDS)
    family.draw(model, seed)
    empty_groups(model)
    family.save(model, FOLDER)
    stored, plain = published(load_file(FOLDER / "model.safetensors"))
    save_file({name: value.float().contiguous() if value.is_floating_point() else value for name, value in plain.items()},
              FOLDER / "model.safetensors", metadata={"format": "pt"})
    loaded, exact = (family.load(FOLDER, dtype).eval() for dtype in (torch.float32, torch.float64))
    prompts, margins, errors = [], [], []
    for tokens in make_goldens.draw_prompts(family.VOCAB, seed):
        with family.Choices() as choices:
            logits = loaded(torch.tensor([tokens]), use_cache=False).logits[0]
        reference = exact(torch.tensor([tokens]), use_cache=False).logits[0]
        margins.append(choices.margin)
        errors.append((logits.double() - reference).abs().max().item())
        rows = [{"position": p, "values": make_goldens.rounded(logits[p].tolist())} for p in make_goldens.PROMPTS[len(tokens)]]
        prompts.append({"tokens": tokens, "logits": rows, "greedy_tokens": [], "greedy_gaps": []})
    return stored, prompts, min(margins), max(errors)


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for seed in range(100):
        stored, prompts, margin, error = make(seed)
        if margin >= family.MIN_CHOICE_MARGIN and error <= 0.5 * make_goldens.MAX_REFERENCE_ERROR:
            break
    else:
        raise SystemExit("no seed without a choice near a tie")
    save_file(stored, FOLDER / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((FOLDER / "config.json").read_text()) | {"expert_dtype": "fp4", "quantization_config": QUANTIZATION}
    (FOLDER / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    goldens = {"source": f"transformers {transformers.__version__}, float32, dequantised weights; seed {seed}", "prompts": prompts}
    (FOLDER / "goldens.json").write_text(json.dumps(goldens, separators=(",", ":")) + "\n")
    size = sum(file.stat().st_size for file in FOLDER.iterdir())
    print(f"seed {seed}, float64 difference {error:.1e}, smallest margin of a choice {margin:.1e}, {size} bytes")


if __name__ == "__main__":
    main()
