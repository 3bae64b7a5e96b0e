# SPDX-License-Identifier: Apache-2.0
"""Compares models of random shapes with transformers: LFM2, LFM2 MoE, Qwen 3.5, dense and with experts, Kimi Linear, and
Gemma 4, dense, with per-layer embeddings and shared keys and values, and with experts.

Draws configs and weights, writes each as a checkpoint with goldens.json (logits alone) to a temporary folder, and runs
the golden tests of a build over them: logits in FP32 within 1e-4 by every CPU variant and attention backend, whole and in
chunks. Numbers of heads, their sizes, taps, widths, experts and the layers that attend are drawn; a draw whose logits in
float32 and float64 are far apart, or that has a choice of experts near a tie, is drawn anew. Prints the shapes; ends with
the status of the tests.

Usage: check_random_shapes.py BUILD [SEED [COUNT]]     (BUILD: a build folder with tests/device_models_test; COUNT of each)
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers

import make_family_goldens as family
import make_goldens

MAX_DRAWS = 40


def common(rng):
    kv_heads = rng.choice([1, 2, 3])
    heads, head_dim = kv_heads * rng.choice([1, 2, 3]), rng.choice([4, 6, 8, 16])
    return {"hidden_size": heads * head_dim, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "intermediate_size": rng.randint(20, 90), "tie_word_embeddings": rng.random() < 0.5}


def layer_types(rng, recurrent):
    """At least one layer of each kind."""
    kinds = ["full_attention", recurrent] + [rng.choice([recurrent, recurrent, "full_attention"]) for _ in range(rng.randint(0, 3))]
    rng.shuffle(kinds)
    return {"num_hidden_layers": len(kinds), "layer_types": kinds}


def experts(rng):
    count = rng.randint(2, 9)
    return {"num_experts": count, "num_experts_per_tok": rng.randint(1, min(count - 1, 4)), "moe_intermediate_size": rng.randint(8, 40)}


def lfm2(rng):
    return "lfm2", {**common(rng), **layer_types(rng, "conv"), "conv_L_cache": rng.randint(2, 8), "conv_bias": rng.random() < 0.5,
                    "block_multiple_of": rng.choice([1, 8, 20]), "block_ffn_dim_multiplier": rng.choice([0.7, 1.0, 1.5]),
                    "block_auto_adjust_ff_dim": rng.random() < 0.7, "norm_eps": rng.choice([1e-5, 1e-3])}


def lfm2_moe(rng):
    fields = {**common(rng), **layer_types(rng, "conv"), **experts(rng)}
    return "lfm2_moe", {**fields, "conv_L_cache": rng.randint(2, 8), "num_dense_layers": rng.randint(0, fields["num_hidden_layers"] - 1),
                        "use_expert_bias": rng.random() < 0.7, "norm_topk_prob": rng.random() < 0.7,
                        "routed_scaling_factor": rng.choice([1.0, 1.7])}


def qwen35(rng):
    keys = rng.choice([1, 2, 3])
    rope = {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": rng.choice([0.25, 0.5]),
            "mrope_section": [2, 1, 1], "mrope_interleaved": True}
    # Norms over a head's few values divide by next to nothing unless epsilon is large.
    return "qwen3_5_text", {**common(rng), **layer_types(rng, "linear_attention"), "head_dim": 16, "linear_num_key_heads": keys,
                            "linear_num_value_heads": keys * rng.choice([1, 2, 3]), "linear_key_head_dim": rng.randint(4, 20),
                            "linear_value_head_dim": rng.randint(4, 40), "linear_conv_kernel_dim": rng.randint(2, 8),
                            "rms_norm_eps": 0.01, "rope_parameters": rope}


def qwen35_moe(rng):
    return "qwen3_5_moe_text", {**qwen35(rng)[1], **experts(rng), "shared_expert_intermediate_size": rng.randint(8, 40)}


def kimi_linear(rng):
    fields = {**common(rng), **layer_types(rng, "linear_attention"), **experts(rng)}
    fields["num_local_experts"] = fields.pop("num_experts")
    sizes = {name: rng.randint(2, 24) for name in ("kv_lora_rank", "qk_nope_head_dim", "v_head_dim")}
    return "kimi_linear", {**fields, **sizes, "qk_rope_head_dim": 2 * rng.randint(1, 6), "num_key_value_heads": fields["num_attention_heads"],
                           "first_k_dense_replace": rng.randint(0, fields["num_hidden_layers"] - 1), "linear_num_heads": rng.randint(1, 4),
                           "linear_head_dim": rng.randint(4, 40), "linear_conv_kernel_dim": rng.randint(2, 8), "rms_norm_eps": 0.01}


def sliding_and_full(rng):
    """At least one layer of each kind, the last one full."""
    kinds = ["sliding_attention", "full_attention"]
    rng.shuffle(kinds)
    return kinds + [rng.choice(kinds) for _ in range(rng.randint(0, 3))] + ["full_attention"]


def gemma4_base(rng, kinds):
    fields = {**common(rng), "num_hidden_layers": len(kinds), "layer_types": kinds, "head_dim": rng.choice([8, 12, 16, 24])}
    return {**fields, "global_head_dim": rng.choice([16, 24, 32, 48]), "sliding_window": rng.randint(2, 40),
            "final_logit_softcapping": rng.choice([None, 30.0]), "hidden_size_per_layer_input": 0}


def gemma4(rng):
    fields = gemma4_base(rng, sliding_and_full(rng))
    kv_heads = rng.choice([n for n in (1, 2, 3) if fields["num_attention_heads"] % n == 0])
    return "gemma4_text", {**fields, "attention_k_eq_v": rng.random() < 0.7, "num_global_key_value_heads": kv_heads}


def gemma4_e(rng):
    own = sliding_and_full(rng)[:-1]
    shared = [rng.choice(own) for _ in range(rng.randint(0, 2))] + ["full_attention"]
    return "gemma4_text", {**gemma4_base(rng, own + shared), "num_kv_shared_layers": len(shared),
                           "use_double_wide_mlp": rng.random() < 0.5, "hidden_size_per_layer_input": rng.randint(3, 20),
                           "vocab_size_per_layer_input": family.VOCAB + rng.randint(0, 3)}


def gemma4_moe(rng):
    of_experts = experts(rng)
    of_experts["top_k_experts"] = of_experts.pop("num_experts_per_tok")
    return "gemma4_text", {**gemma4(rng)[1], **of_experts, "enable_moe_block": True}


SHAPES = {"gemma4": gemma4, "gemma4_e": gemma4_e, "gemma4_moe": gemma4_moe, "lfm2": lfm2, "lfm2_moe": lfm2_moe, "qwen35": qwen35, "qwen35_moe": qwen35_moe,
          "kimi_linear": kimi_linear}


def compare(model, exact, tokens, gaps):
    """The prompt's golden, and whether the draw is one that rounding does not change."""
    with family.Choices() as choices:
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
    reference = exact(torch.tensor([tokens]), use_cache=False).logits[0]
    error = (logits.double() - reference).abs().max().item()
    rows = [{"position": p, "values": make_goldens.rounded(logits[p].tolist())} for p in make_goldens.PROMPTS[len(tokens)]]
    steady = family.is_steady(model.config, [(None, error)], [choices.margin], gaps)
    return ({"tokens": tokens, "logits": rows, "greedy_tokens": [], "greedy_gaps": []},
            steady and error <= 0.3 * make_goldens.MAX_REFERENCE_ERROR)


def make(name, shape, rng, root):
    for _ in range(MAX_DRAWS):
        model_type, fields = SHAPES[shape](rng)
        seed = rng.randrange(1 << 30)
        model = family.build(model_type, fields)
        family.draw(model, seed)
        folder = root / name
        family.save(model, folder)
        loaded, exact = (family.load(folder, dtype).eval() for dtype in (torch.float32, torch.float64))
        gaps = family.watch_routers(loaded) if family.is_recurrent(loaded.config) else []
        results = [compare(loaded, exact, tokens, gaps) for tokens in make_goldens.draw_prompts(family.VOCAB, seed)]
        if all(steady for _, steady in results):
            break
    else:
        raise SystemExit(f"{name}: no draw of {MAX_DRAWS} is far from ties")
    goldens = {"source": f"transformers {transformers.__version__}; seed {seed}", "weights_dtype": "bfloat16",
               "vocab_size": family.VOCAB, "prompts": [golden for golden, _ in results]}
    (folder / "goldens.json").write_text(json.dumps(goldens))
    print(f"{name}: {model_type} {fields}", flush=True)


@torch.no_grad()
def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as root:
        for i in range(int(sys.argv[3]) if len(sys.argv) > 3 else 3):
            for shape in SHAPES:
                make(f"{shape}_{i}", shape, rng, pathlib.Path(root))
        tests = subprocess.run([build / "tests" / "device_models_test", "--gtest_filter=Models/GoldensLogits.*", "--gtest_brief=1"],
                               env={**os.environ, "DUNLIN_GOLDEN_MODELS": root}, check=False)
    sys.exit(tests.returncode)


if __name__ == "__main__":
    main()
