#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the GGUF goldens, with the Python package `gguf` as writer and as oracle of dequantisation.

blocks.json: for each block format two blocks of random codes with finite scales, and the FP32 values that
gguf.quants gives, both in hexadecimal.

encoders/bert_tiny.gguf: the encoder tests/golden/encoders/bert_tiny with its tokenizer.

NAME.gguf for each row of MODELS: the checkpoint tests/golden/models/NAME as llama.cpp's converter would write it (Q and
K of Llama permuted, Gemma's norms plus 1, GPT-NeoX's fused rows apart, GPT-2's matrices transposed, Llama 3's rotary
factors as a tensor), floats as stored. Its logits are those of NAME/goldens.json. llama_q4, qwen2_q8, llama_k and
llama_iq hold quantised matrices of random models (the last two random blocks of 256 elements, types mixed as Q4_K_M
files and files of 2 bits mix them); their
goldens.json has the logits that transformers computes from the file and, as own_logits, those with the inputs of every
product rounded to BF16, in the attention too: what products of the file's own codes compute.
Where transformers reads an architecture's GGUF files, its own logits of the file are compared with those of the
checkpoint: largest difference 1e-4.

Usage: make_gguf_goldens.py     (needs gguf, torch, transformers, safetensors, numpy)
"""

import contextlib
import json
import pathlib
import sys

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Type
from safetensors import safe_open

HERE = pathlib.Path(__file__).resolve().parent
MODELS_FOLDER = HERE.parent / "models"

BLOCK_TYPES = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K,
               Type.Q6_K, Type.IQ4_NL, Type.IQ4_XS, Type.MXFP4, Type.IQ2_XXS, Type.IQ2_XS, Type.IQ2_S, Type.IQ3_XXS,
               Type.IQ3_S, Type.IQ1_S, Type.IQ1_M]
# Offsets of a block's FP16 scales and minima.
HALVES = {Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0], Type.Q2_K: [80, 82],
          Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.IQ4_NL: [0],
          Type.IQ4_XS: [0], Type.MXFP4: [], Type.IQ2_XXS: [0], Type.IQ2_XS: [0], Type.IQ2_S: [0], Type.IQ3_XXS: [0],
          Type.IQ3_S: [0], Type.IQ1_S: [0], Type.IQ1_M: []}

# Name -> (GGUF architecture, whether transformers reads it).
MODELS = {"gpt2_untied": ("gpt2", False), "llama_gqa": ("llama", True), "llama_tied": ("llama", True),
          "llama3_rope": ("llama", False), "llama_yarn": ("llama", False), "mistral_window": ("llama", False),
          "neox_parallel": ("gptneox", False), "phi_tiny": ("phi2", False), "qwen2_gqa": ("qwen2", True),
          "qwen3_qk_norm": ("qwen3", False), "gemma2_tiny": ("gemma2", False)}

LAYER_NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.dense": "attn_output", "attention.dense": "attn_output",
    "attn.c_proj": "attn_output", "attention.query_key_value": "attn_qkv", "attn.c_attn": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
    "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}
GEMMA_NAMES = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
               "post_feedforward_layernorm": "post_ffw_norm"}
OUTER_NAMES = {"embed_tokens": "token_embd", "wte": "token_embd", "embed_in": "token_embd", "wpe": "position_embd",
               "norm": "output_norm", "ln_f": "output_norm", "final_layer_norm": "output_norm",
               "final_layernorm": "output_norm", "lm_head": "output", "embed_out": "output"}


def gguf_name(name, arch):
    stem, ending = name.rsplit(".", 1)
    for prefix in ("model.", "transformer.", "gpt_neox."):
        stem = stem.removeprefix(prefix)
    parts = stem.split(".")
    if parts[0] in ("layers", "h"):
        inner = ".".join(parts[2:])
        names = LAYER_NAMES | GEMMA_NAMES if arch == "gemma2" else LAYER_NAMES
        return f"blk.{parts[1]}.{names[inner]}.{ending}"
    return f"{OUTER_NAMES[stem]}.{ending}"


def interleave(rows, heads):
    """The order of llama.cpp's rotation: the two halves of a head, row by row."""
    shape = rows.shape
    return rows.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def converted(name, tensor, arch, config):
    heads = config.get("num_attention_heads") or config.get("n_head")
    if arch == "llama" and (".attn_q." in name or ".attn_k." in name):
        return interleave(tensor, heads if ".attn_q." in name else config["num_key_value_heads"])
    if arch == "gemma2" and name.endswith("norm.weight"):
        return tensor.float() + 1
    if arch == "gptneox" and ".attn_qkv." in name:
        head_dim = config["hidden_size"] // heads
        return tensor.reshape(heads, 3, head_dim, -1).transpose(0, 1).reshape(tensor.shape)
    if arch == "gpt2" and tensor.dim() == 2 and not name.startswith(("token_embd", "position_embd", "output")):
        return tensor.T
    return tensor


def add_metadata(writer, arch, config):
    get = lambda *names: next((config[n] for n in names if config.get(n) is not None), None)
    heads, hidden = get("num_attention_heads", "n_head"), get("hidden_size", "n_embd")
    writer.add_context_length(get("max_position_embeddings", "n_positions"))
    writer.add_vocab_size(config["vocab_size"])
    writer.add_embedding_length(hidden)
    writer.add_block_count(get("num_hidden_layers", "n_layer"))
    writer.add_feed_forward_length(get("intermediate_size", "n_inner"))
    writer.add_head_count(heads)
    if get("num_key_value_heads"):
        writer.add_head_count_kv(config["num_key_value_heads"])
    if get("rms_norm_eps"):
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if get("layer_norm_eps", "layer_norm_epsilon"):
        writer.add_layer_norm_eps(get("layer_norm_eps", "layer_norm_epsilon"))
    head_dim = get("head_dim") or hidden // heads
    if get("head_dim"):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if arch not in ("gpt2", "bert"):
        writer.add_rope_freq_base(float(rope.get("rope_theta") or get("rope_theta", "rotary_emb_base") or 10000))
        part = rope.get("partial_rotary_factor") or get("partial_rotary_factor", "rotary_pct") or 1.0
        writer.add_rope_dimension_count(int(head_dim * part))
    if rope.get("rope_type") == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if arch == "gptneox":
        writer.add_parallel_residual(config["use_parallel_residual"])
    if config["model_type"] in ("mistral", "gemma2") and get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
        writer.add_attention_scale(config["query_pre_attn_scalar"] ** -0.5)
    writer.add_eos_token_id(np.ravel([config["eos_token_id"]])[0].item())


def rotary_factors(config):
    """Llama 3's scaling as one divisor per frequency. Source: Llama 3.1's reference code."""
    rope = config.get("rope_scaling") or config["rope_parameters"]
    low_wavelength = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high_wavelength = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    factors = []
    for i in range(config["head_dim"] // 2):
        wavelength = 2 * np.pi * config.get("rope_theta", rope.get("rope_theta")) ** (2 * i / config["head_dim"])
        if wavelength < high_wavelength or wavelength > low_wavelength:
            factors.append(1.0 if wavelength < high_wavelength else rope["factor"])
            continue
        smooth = (rope["original_max_position_embeddings"] / wavelength - rope["low_freq_factor"]) / (
            rope["high_freq_factor"] - rope["low_freq_factor"])
        factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


# Of blocks of 256 elements: where the FP16 factors of scales and minima are, and the mean code.
SUPER_BLOCKS = {Type.Q2_K: (80, 82, 1.5), Type.Q3_K: (108, None, 0), Type.Q4_K: (0, 2, 7.5), Type.Q5_K: (0, 2, 15.5),
                Type.Q6_K: (208, None, 0), Type.IQ4_XS: (0, None, 0), Type.IQ2_XXS: (0, None, 0),
                Type.IQ2_XS: (0, None, 0), Type.IQ2_S: (0, None, 0), Type.IQ3_XXS: (0, None, 0),
                Type.IQ3_S: (0, None, 0), Type.IQ1_S: (0, None, 0), Type.IQ1_M: (None, None, 0)}


def put_iq1m_factors(blocks, factors):
    """The four parts of the FP16 factor are the highest bits of the words of scales."""
    words = blocks[:, 48:56].copy().view(np.uint16)
    parts = factors.view(np.uint16)[:, None] >> np.array([0, 4, 8, 12], dtype=np.uint16) & 0xF
    blocks[:, 48:56] = (words & 0x0FFF | parts << 12).astype(np.uint16).view(np.uint8)


def random_blocks(shape, kind):
    """Random blocks whose values have a mean near 0 and a deviation of 0.06."""
    random = np.random.default_rng(int(torch.randint(1 << 30, ()).item()))
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (shape[0] * shape[1] // elements, size), dtype=np.uint8)
    at, min_at, mean = SUPER_BLOCKS[kind]
    factors = random.uniform(0.5, 1.5, len(blocks)) * random.choice([-1, 1], len(blocks))

    def put(unit):
        if at is None:
            return put_iq1m_factors(blocks, (factors * unit).astype(np.float16))
        blocks[:, at:at + 2] = (factors * unit).astype(np.float16).view(np.uint8).reshape(-1, 2)
        if min_at is not None:
            blocks[:, min_at:min_at + 2] = (factors * unit * mean).astype(np.float16).view(np.uint8).reshape(-1, 2)

    put(1e-3)
    put(1e-3 * 0.06 / gguf.quants.dequantize(blocks, kind).std())
    return blocks.reshape(shape[0], -1)


def add_tensor(writer, name, tensor, kind=None):
    tensor = tensor.contiguous()
    if kind in SUPER_BLOCKS:
        writer.add_tensor(name, random_blocks(tensor.shape, kind), raw_dtype=kind)
    elif kind is not None:
        writer.add_tensor(name, gguf.quants.quantize(tensor.float().numpy(), kind), raw_dtype=kind)
    elif tensor.dtype == torch.bfloat16 and tensor.dim() > 1:
        writer.add_tensor(name, tensor.view(torch.uint8).numpy(), raw_dtype=Type.BF16)
    else:  # vectors are FP32 in every published file
        writer.add_tensor(name, (tensor.float() if tensor.dim() == 1 else tensor).numpy())


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def checkpoint_tensors(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            tensors |= {name: opened.get_tensor(name) for name in opened.keys()}
    return tensors


def logits_of(model, tokens):
    return model(torch.tensor([tokens]), use_cache=False).logits[0]


def compare(name, path, prompts):
    """transformers' logits of the file against those of the checkpoint."""
    model = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32,
                                                              attn_implementation="eager").eval()
    worst = 0.0
    for prompt in prompts:
        logits = logits_of(model, prompt["tokens"])
        for row in prompt["logits"]:
            worst = max(worst, (logits[row["position"]] - torch.tensor(row["values"])).abs().max().item())
    print(f"{name}: transformers' logits of the file differ by {worst:.1e}", flush=True)
    if worst > 1e-4:
        raise SystemExit(f"{name}: too far")


def write_model(name, arch, compared):
    folder = MODELS_FOLDER / name
    config = json.loads((folder / "config.json").read_text())
    path = HERE / f"{name}.gguf"
    writer = gguf.GGUFWriter(path, arch)
    add_metadata(writer, arch, config)
    for hf_name, tensor in sorted(checkpoint_tensors(folder).items()):
        target = gguf_name(hf_name, arch)
        add_tensor(writer, target, converted(target, tensor, arch, config))
    if name == "llama3_rope":
        writer.add_tensor("rope_freqs.weight", rotary_factors(config))
    finish(writer)
    if compared:
        compare(name, path, json.loads((folder / "goldens.json").read_text())["prompts"])


# Types of llama_k by the file's tensor names: its first layer as in a Q4_K_M file.
K_TYPES = {"token_embd": Type.Q6_K, "output": Type.Q6_K,
           "blk.0.attn_v": Type.Q6_K, "blk.0.ffn_down": Type.Q6_K, "blk.1.attn_q": Type.Q3_K, "blk.1.attn_k": Type.Q2_K,
           "blk.1.attn_v": Type.Q5_K, "blk.1.attn_output": Type.Q5_K, "blk.1.ffn_gate": Type.Q2_K,
           "blk.1.ffn_up": Type.Q2_K, "blk.1.ffn_down": Type.Q3_K}
# Of llama_iq: IQ types as a file of 2 bits mixes them, a layer's Q and K with a V of a K type, a pair of IQ1 types.
IQ_TYPES = {"token_embd": Type.IQ3_S, "output": Type.Q6_K,
            "blk.0.attn_q": Type.IQ2_XXS, "blk.0.attn_k": Type.IQ2_XXS, "blk.0.attn_v": Type.Q4_K,
            "blk.0.attn_output": Type.IQ3_XXS, "blk.0.ffn_gate": Type.IQ2_XS, "blk.0.ffn_up": Type.IQ2_S,
            "blk.0.ffn_down": Type.IQ3_S, "blk.1.attn_q": Type.IQ4_XS, "blk.1.attn_k": Type.IQ4_XS,
            "blk.1.attn_v": Type.IQ4_XS, "blk.1.attn_output": Type.IQ1_S, "blk.1.ffn_gate": Type.IQ1_S,
            "blk.1.ffn_up": Type.IQ1_M, "blk.1.ffn_down": Type.IQ2_XXS}
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_key_value_heads": 2, "head_dim": 16}
K_SIZES = {"hidden_size": 256, "intermediate_size": 256, "num_key_value_heads": 1, "head_dim": 64}
# Name -> (model type, GGUF architecture, sizes, types of the matrices in turn or by name).
QUANTIZED = {"llama_q4": ("llama", "llama", SIZES, [Type.Q4_0, Type.Q4_1, Type.Q8_0]),
             "qwen2_q8": ("qwen2", "qwen2", SIZES, [Type.Q8_0, Type.Q5_0, Type.Q5_1]),
             "llama_k": ("llama", "llama", K_SIZES, K_TYPES),
             "llama_iq": ("llama", "llama", K_SIZES, IQ_TYPES)}


@contextlib.contextmanager
def rounded_inputs(model):
    """Rounds what products of BF16 inputs round: the inputs of linear layers, queries, keys and values."""
    rounded = lambda x: x.bfloat16().float()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda _, inputs: (rounded(inputs[0]),))
    modeling = sys.modules[type(model).__module__]
    attention = modeling.eager_attention_forward
    modeling.eager_attention_forward = lambda module, query, key, value, *rest, **named: attention(
        module, rounded(query), rounded(key), rounded(value), *rest, **named)
    yield
    modeling.eager_attention_forward = attention


def write_quantized(name, model_type, arch, sizes, kinds):
    config = {"model_type": model_type, "vocab_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
              "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "eos_token_id": 2,
              "tie_word_embeddings": False} | sizes
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config))
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    path = folder / "model.gguf"
    writer = gguf.GGUFWriter(path, arch)
    add_metadata(writer, arch, config)
    matrices = 0
    for hf_name, tensor in sorted(model.state_dict().items()):
        target = gguf_name(hf_name, arch)
        is_matrix = tensor.dim() == 2
        value = torch.randn(tensor.shape) * (0.2 if is_matrix else 0.1) + (0.0 if is_matrix else 1.0)
        kind = None
        if is_matrix and isinstance(kinds, dict):
            kind = kinds.get(target.removesuffix(".weight"), Type.Q4_K)
        elif is_matrix:
            kind = kinds[matrices % len(kinds)]
        add_tensor(writer, target, converted(target, value, arch, config), kind)
        matrices += is_matrix
    finish(writer)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file="model.gguf", dtype=torch.float32,
                                                               attn_implementation="eager").eval()
    tokens = [1, 5, 95, 0, 17, 42, 42, 3, 88, 61, 7, 12, 29, 30, 31, 90, 2, 64, 33]
    rows = lambda: [{"position": p, "values": [round(v, 5) for v in logits_of(loaded, tokens)[p].tolist()]}
                    for p in (0, 8, 18)]
    prompt = {"tokens": tokens, "logits": rows(), "greedy_tokens": [], "greedy_gaps": []}
    with rounded_inputs(loaded):
        prompt["own_logits"] = rows()
    goldens = {"source": f"transformers {transformers.__version__}, gguf_file, float32, eager attention",
               "prompts": [prompt]}
    (folder / "goldens.json").write_text(json.dumps(goldens, separators=(",", ":")) + "\n")
    print(f"{name}: {path.stat().st_size} bytes", flush=True)


def write_blocks():
    random = np.random.default_rng(20261125)
    rows = {}
    for kind in BLOCK_TYPES:
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (2, size), dtype=np.uint8)
        for offset in HALVES[kind]:
            scales = (random.standard_normal(2) * [0.05, 1e-6]).astype(np.float16)  # the second is subnormal
            blocks[:, offset:offset + 2] = scales.view(np.uint8).reshape(2, 2)
        if kind == Type.MXFP4:
            blocks[:, 0] = (1, 130)
        if kind == Type.IQ1_M:
            put_iq1m_factors(blocks, np.array([0.05, 1e-6], dtype=np.float16))
        values = gguf.quants.dequantize(blocks, kind).astype(np.float32)
        rows[kind.name] = {"id": int(kind), "blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()}
    (HERE / "blocks.json").write_text(json.dumps(rows, indent=1) + "\n")


BERT_NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}


def write_bert():
    """An encoder with its tokenizer: words begin with "▁", continuations have lost their "##"."""
    folder = HERE.parent / "encoders" / "bert_tiny"
    config = json.loads((folder / "config.json").read_text()) | {"eos_token_id": 3, "head_dim": None}
    (HERE / "encoders").mkdir(exist_ok=True)
    writer = gguf.GGUFWriter(HERE / "encoders" / "bert_tiny.gguf", "bert")
    add_metadata(writer, "bert", config)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.CLS)
    vocab = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    words = sorted(vocab, key=vocab.get)
    special = [word.startswith("[") and word.endswith("]") and len(word) > 2 for word in words]
    writer.add_tokenizer_model("bert")
    writer.add_token_list([w if s else w[2:] if w.startswith("##") else "▁" + w for w, s in zip(words, special)])
    writer.add_token_types([3 if s else 1 for s in special])
    writer.add_unk_token_id(vocab["[UNK]"])
    writer.add_bos_token_id(vocab["[CLS]"])
    writer.add_sep_token_id(vocab["[SEP]"])
    for name, tensor in sorted(checkpoint_tensors(folder).items()):
        if name.startswith("pooler."):
            continue
        stem, ending = name.rsplit(".", 1)
        parts = stem.split(".")
        target = f"blk.{parts[2]}." + BERT_NAMES[".".join(parts[3:])] if parts[0] == "encoder" else BERT_NAMES[stem]
        add_tensor(writer, f"{target}.{ending}", tensor)
    finish(writer)


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    write_blocks()
    for name, (arch, compared) in MODELS.items():
        write_model(name, arch, compared)
    for name, row in QUANTIZED.items():
        write_quantized(name, *row)
    write_bert()


if __name__ == "__main__":
    sys.exit(main())
