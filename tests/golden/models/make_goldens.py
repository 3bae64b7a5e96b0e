# SPDX-License-Identifier: Apache-2.0
"""Makes the model goldens: tiny seeded checkpoints, their logits and greedy continuations.

Each row of MODELS becomes a folder beside this script with the files of a Hugging Face checkpoint and
goldens.json. The logits come from `transformers`, float32, eager attention, weights upcast from the
stored type; nanogpt_tiny, which transformers does not know, from float64_reference.py in float32.
Every stored logit is checked against the float64 reference (float64_reference.py, independent code).

goldens.json: source, weights_dtype, vocab_size, prompts[]: tokens; logits[] = {position, values
[vocab_size]}, the last one at the prompt's last position; greedy_tokens, 64 of them, end-of-text not
special; greedy_gaps, the reference's top-2 logit gap at each of those steps. A comparison of greedy
tokens ends at the first step with a gap < 1e-3.

Usage: make_goldens.py [NAME...]     (all by default; package versions: models/training/requirements.txt)
"""

import json
import math
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import save_file

import float64_reference

HERE = pathlib.Path(__file__).resolve().parent
GREEDY_STEPS = 64
MAX_REFERENCE_ERROR = 1e-4
MIN_GAP = 4e-3
MIN_DISTINCT_TOKENS = 12
# Prompt length -> positions with stored logits. 75 crosses four 16-token pages and a 64-token tile.
PROMPTS = {1: [0], 17: [15, 16], 33: [32], 75: [15, 63, 64, 74]}


def gpt2(vocab, positions, hidden, heads, inner, tied, dtype):
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": vocab, "n_positions": positions,
            "n_ctx": positions, "n_embd": hidden, "n_layer": 2, "n_head": heads, "n_inner": inner,
            "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "attn_pdrop": 0.0, "embd_pdrop": 0.0,
            "resid_pdrop": 0.0, "tie_word_embeddings": tied, "bos_token_id": vocab - 1, "eos_token_id": vocab - 1,
            "torch_dtype": dtype}


def llama(vocab, hidden, heads, kv_heads, head_dim, ffn, tied, **more):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocab, "hidden_size": hidden,
            "intermediate_size": ffn, "num_hidden_layers": 2, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": head_dim, "max_position_embeddings": 256,
            "hidden_act": "silu", "rms_norm_eps": 1e-05, "attention_bias": False, "mlp_bias": False,
            "attention_dropout": 0.0, "tie_word_embeddings": tied, "bos_token_id": 1, "eos_token_id": 2, **more}


def neox(vocab, heads, head_dim, ffn, parallel, **more):
    return {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "vocab_size": vocab,
            "hidden_size": heads * head_dim, "num_attention_heads": heads, "intermediate_size": ffn,
            "num_hidden_layers": 2, "max_position_embeddings": 160, "hidden_act": "gelu", "layer_norm_eps": 1e-05,
            "use_parallel_residual": parallel, "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 0, **more}


def phi(vocab, heads, kv_heads, head_dim, ffn, **more):
    return {"architectures": ["PhiForCausalLM"], "model_type": "phi", "vocab_size": vocab, "hidden_size": heads * head_dim,
            "intermediate_size": ffn, "num_hidden_layers": 2, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "max_position_embeddings": 160, "hidden_act": "gelu_new", "layer_norm_eps": 1e-05, "qk_layernorm": False,
            "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 0, **more}


def qwen(kind, vocab, hidden, heads, kv_heads, ffn, tied, **more):
    base = {"architectures": [f"Qwen{kind[-1]}ForCausalLM"], "model_type": kind, "vocab_size": vocab,
            "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": 2, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "max_position_embeddings": 256, "hidden_act": "silu",
            "rms_norm_eps": 1e-06, "use_sliding_window": False, "sliding_window": 64, "max_window_layers": 2,
            "tie_word_embeddings": tied, "bos_token_id": 1, "eos_token_id": [2, 3]}
    return base | more


def mistral(vocab, hidden, heads, kv_heads, head_dim, ffn, window, **more):
    return without(qwen("mistral", vocab, hidden, heads, kv_heads, ffn, False), "use_sliding_window",
                   "max_window_layers") | {"architectures": ["MistralForCausalLM"], "head_dim": head_dim,
                                           "sliding_window": window, **more}


def gemma2(vocab, hidden, heads, kv_heads, head_dim, ffn, layers, **more):
    return {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "vocab_size": vocab, "hidden_size": hidden,
            "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": head_dim, "max_position_embeddings": 256,
            "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-06,
            "attention_bias": False, "tie_word_embeddings": True, "bos_token_id": 2, "eos_token_id": 1, **more}


def without(config, *keys):
    return {k: v for k, v in config.items() if k not in keys}


# Name -> (config, first seed, shards). The llama rows with rope_theta are written as transformers 4
# writes them, those with rope_parameters as transformers 5 does.
MODELS = {
    "gpt2_tiny": (gpt2(515, 256, 60, 3, 20, True, "float32"), 100, 1),
    "gpt2_untied": (gpt2(67, 160, 80, 1, 40, False, "float16"), 200, 1),
    "llama_gqa": (llama(515, 27, 9, 3, 20, 40, False, dtype="bfloat16",
                        rope_parameters={"rope_type": "default", "rope_theta": 50000.0}), 300, 1),
    "llama_tied": (llama(131, 16, 2, 1, 80, 36, True, rope_theta=10000.0, rope_scaling=None,
                         torch_dtype="float32"), 400, 1),
    "llama3_rope": (llama(97, 24, 2, 1, 16, 32, False, rope_theta=10000.0, torch_dtype="float32", rope_scaling={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}), 500, 1),
    # No head_dim (hidden_size / num_attention_heads) and the old spelling of rope_type.
    "llama_linear": (without(llama(97, 24, 2, 2, None, 32, False, rope_theta=10000.0, torch_dtype="float32",
                                   rope_scaling={"type": "linear", "factor": 2.5}), "head_dim"), 600, 2),
    "llama_yarn": (llama(97, 24, 2, 1, 16, 32, False, dtype="float32", rope_parameters={
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
        "original_max_position_embeddings": 64}), 700, 1),
    "nanogpt_tiny": ({"model_type": "nanogpt", "block_size": 160, "vocab_size": 131, "n_layer": 2, "n_head": 3,
                      "n_embd": 24, "bias": False, "dropout": 0.0}, 800, 1),
    "neox_parallel": (neox(515, 3, 20, 50, True, rotary_pct=0.4, rotary_emb_base=20000, torch_dtype="float16"), 900, 1),
    "neox_sequential": (neox(131, 1, 80, 64, False, attention_bias=False, dtype="bfloat16", rope_parameters={
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}), 1000, 1),
    "phi_tiny": (phi(131, 3, 1, 20, 40, partial_rotary_factor=0.5, rope_theta=10000.0, rope_scaling=None,
                     torch_dtype="float16"), 1100, 1),
    "qwen2_gqa": (qwen("qwen2", 515, 60, 3, 1, 40, False, rope_theta=1000000.0, torch_dtype="bfloat16"), 1200, 1),
    "qwen3_qk_norm": (qwen("qwen3", 131, 27, 9, 3, 40, False, head_dim=20, attention_bias=False, dtype="bfloat16",
                           rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}), 1300, 2),
    # Windows shorter than the prompts, and on no boundary of a page or a key tile.
    "mistral_window": (mistral(131, 24, 4, 2, 20, 36, 21, rope_theta=10000.0, torch_dtype="bfloat16"), 1400, 1),
    "qwen2_window": (qwen("qwen2", 97, 40, 2, 1, 40, False, use_sliding_window=True, sliding_window=19,
                          max_window_layers=1, dtype="float16", layer_types=["full_attention", "sliding_attention"],
                          rope_parameters={"rope_type": "default", "rope_theta": 10000.0}), 1500, 1),
    "gemma2_tiny": (gemma2(131, 30, 6, 2, 20, 40, 3, sliding_window=13, query_pre_attn_scalar=24, dtype="bfloat16",
                           attn_logit_softcapping=2.5, final_logit_softcapping=9.0,
                           rope_parameters={"rope_type": "default", "rope_theta": 10000.0}), 1600, 1),
}


def published_shapes(config):
    """tensor_shapes of a family whose tensor names are those of the transformers model."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config))
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if config["tie_word_embeddings"]:
        del shapes["lm_head.weight"]
    if "rotary_pct" in config:  # the published GPT-NeoX files, from before transformers 5
        shapes["embed_out.weight"] = shapes.pop("lm_head.weight")
    return shapes


def tensor_shapes(config):
    """Name -> shape of every stored tensor, in the names and orientations of the format."""
    shapes = {}
    if config["model_type"] not in ("gpt2", "nanogpt", "llama"):
        return published_shapes(config)
    if config["model_type"] == "llama":
        hidden, ffn, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
        head_dim = config.get("head_dim") or hidden // heads
        kv_dim, q_dim = config["num_key_value_heads"] * head_dim, heads * head_dim
        shapes["model.embed_tokens.weight"] = (config["vocab_size"], hidden)
        for i in range(config["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            shapes |= {layer + "input_layernorm.weight": (hidden,), layer + "post_attention_layernorm.weight": (hidden,),
                       layer + "self_attn.q_proj.weight": (q_dim, hidden),
                       layer + "self_attn.k_proj.weight": (kv_dim, hidden),
                       layer + "self_attn.v_proj.weight": (kv_dim, hidden),
                       layer + "self_attn.o_proj.weight": (hidden, q_dim), layer + "mlp.gate_proj.weight": (ffn, hidden),
                       layer + "mlp.up_proj.weight": (ffn, hidden), layer + "mlp.down_proj.weight": (hidden, ffn)}
        shapes["model.norm.weight"] = (hidden,)
    else:
        nano = config["model_type"] == "nanogpt"
        hidden, vocab = config["n_embd"], config["vocab_size"]
        inner = config.get("n_inner") or 4 * hidden
        # The first published GPT-2 files carry no "transformer." prefix; gpt2_tiny follows them.
        prefix = "transformer." if nano or not config["tie_word_embeddings"] else ""
        shapes[prefix + "wte.weight"] = (vocab, hidden)
        shapes[prefix + "wpe.weight"] = (config["block_size"] if nano else config["n_positions"], hidden)
        linears = {"attn.c_attn": (hidden, 3 * hidden), "attn.c_proj": (hidden, hidden), "mlp.c_fc": (hidden, inner),
                   "mlp.c_proj": (inner, hidden)}
        norms = []
        for i in range(config["n_layer"]):
            norms += [f"{prefix}h.{i}.ln_1", f"{prefix}h.{i}.ln_2"]
            for name, (rows, columns) in linears.items():
                shapes[f"{prefix}h.{i}.{name}.weight"] = (columns, rows) if nano else (rows, columns)
                if not nano:
                    shapes[f"{prefix}h.{i}.{name}.bias"] = (columns,)
        for name in norms + [prefix + "ln_f"]:
            shapes[name + ".weight"] = (hidden,)
            if not nano:
                shapes[name + ".bias"] = (hidden,)
    if config.get("tie_word_embeddings") is False:
        shapes["lm_head.weight"] = (config["vocab_size"], config.get("hidden_size") or config["n_embd"])
    return shapes


def draw_tensors(config, seed):
    """Normal weights, wide enough (std about 0.2 to 0.6) that attention is peaked and logits far apart."""
    generator = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, config.get("dtype") or config.get("torch_dtype") or "float32")
    tensors, gemma = {}, config["model_type"] == "gemma2"
    for name, shape in tensor_shapes(config).items():
        noise = torch.randn(shape, generator=generator)
        is_norm = "norm" in name or ".ln_" in name or name.startswith("ln_")
        if is_norm and name.endswith("weight"):
            value = 1.0 + 0.2 * noise
            if gemma:  # adds 1 itself; its logits get back what the narrow embedding takes
                value += 9.0 if name == "model.norm.weight" else -1.0
        elif len(shape) == 1 or "wpe" in name:
            value = 0.2 * noise
        elif "wte" in name or "embed_" in name or "lm_head" in name:
            # Gemma scales a tied embedding up: as wide as the others', every token would be followed by itself.
            value = (0.3 if gemma else 2.7) / math.sqrt(shape[1]) * noise
        else:
            value = 1.6 / math.sqrt(min(shape)) * noise
        tensors[name] = value.to(dtype).contiguous()
    return tensors


def save_checkpoint(folder, config, tensors, shards):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    ids = {k: config[k] for k in ("bos_token_id", "eos_token_id") if k in config}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(ids | {"do_sample": False}, indent=2) + "\n")
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(tensors)
    weight_map, total = {}, sum(t.nbytes for t in tensors.values())
    for shard in range(shards):
        part = names[shard * len(names) // shards:(shard + 1) * len(names) // shards]
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        save_file({n: tensors[n] for n in part}, folder / file, metadata={"format": "pt"})
        weight_map |= {n: file for n in part}
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def load_forward(folder, config):
    """tokens [n] -> float32 logits [n, vocab_size], from the files just written."""
    if config["model_type"] == "nanogpt":
        reference = float64_reference.load(folder, torch.float32)
        return lambda tokens: reference(tokens)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                              attn_implementation="eager").eval()
    return lambda tokens: model(torch.tensor([tokens]), use_cache=False).logits[0]


def draw_prompts(vocab, seed):
    generator = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(0, vocab, (n,), generator=generator).tolist() for n in PROMPTS]
    prompts[1][3], prompts[2][4] = 0, vocab - 1
    return prompts


def continue_greedily(forward, prompt):
    tokens, gaps = list(prompt), []
    for _ in range(GREEDY_STEPS):
        top = forward(tokens)[-1].topk(2)
        tokens.append(top.indices[0].item())
        gaps.append((top.values[0] - top.values[1]).item())
    return tokens[len(prompt):], gaps


def rounded(values):
    return [round(v, 5) for v in values]


def make_prompt_goldens(forward, reference, tokens):
    """Returns the JSON entry and the largest difference from the float64 reference."""
    logits, exact = forward(tokens), reference(tokens)
    error = (logits.double() - exact).abs().max().item()
    rows = [{"position": p, "values": rounded(logits[p].tolist())} for p in PROMPTS[len(tokens)]]
    greedy, gaps = continue_greedily(forward, tokens)
    return {"tokens": tokens, "logits": rows, "greedy_tokens": greedy, "greedy_gaps": [round(g, 5) for g in gaps]}, error


def is_telling(prompts, min_distinct=MIN_DISTINCT_TOKENS):
    """No near tie anywhere, and no continuation that only repeats itself."""
    return all(min(p["greedy_gaps"]) >= MIN_GAP and len(set(p["greedy_tokens"])) >= min_distinct
               for p in prompts)


@torch.no_grad()
def make_model(name, config, first_seed, shards):
    folder = HERE / name
    for seed in range(first_seed, first_seed + 100):
        save_checkpoint(folder, config, draw_tensors(config, seed), shards)
        forward, reference = load_forward(folder, config), float64_reference.load(folder, torch.float64)
        results = []
        for tokens in draw_prompts(config["vocab_size"], seed):
            results.append(make_prompt_goldens(forward, reference, tokens))
            if not is_telling([results[-1][0]]):
                break
        if len(results) == len(PROMPTS) and is_telling([r[0] for r in results]):
            break
    else:
        raise SystemExit(f"{name}: no seed gives telling continuations")
    error = max(r[1] for r in results)
    if error > MAX_REFERENCE_ERROR:
        raise SystemExit(f"{name}: float32 and float64 logits differ by {error}")
    source = "float64_reference.py in float32" if config["model_type"] == "nanogpt" else (
        f"transformers {transformers.__version__}, float32, eager attention")
    goldens = {"source": f"{source}; torch {torch.__version__.split('+')[0]}; seed {seed}",
               "weights_dtype": config.get("dtype") or config.get("torch_dtype") or "float32",
               "vocab_size": config["vocab_size"], "prompts": [r[0] for r in results]}
    (folder / "goldens.json").write_text(json.dumps(goldens, separators=(",", ":")) + "\n")
    gap = min(min(p["greedy_gaps"]) for p in goldens["prompts"])
    size = max(abs(v) for p in goldens["prompts"] for row in p["logits"] for v in row["values"])
    distinct = [len(set(p["greedy_tokens"])) for p in goldens["prompts"]]
    print(f"{name}: seed {seed}, largest logit {size:.1f}, float64 difference {error:.1e}, "
          f"smallest gap {gap:.4f}, distinct tokens {distinct}", flush=True)


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in sys.argv[1:] or MODELS:
        config, seed, shards = MODELS[name]
        make_model(name, config, seed, shards)


if __name__ == "__main__":
    main()
