# SPDX-License-Identifier: Apache-2.0
"""Makes the random weights that every engine of a comparison loads: one checkpoint, written once.

  DIR/SHAPE/hf/            config.json, model.safetensors (BF16): Dunlin, transformers
  DIR/SHAPE/DTYPE.gguf     the same tensors for llama.cpp: BF16, F16, F32, Q8_0, Q4_0; Q4_K_M is llama.cpp's own
                           mixture, made by it from BF16.gguf
  DIR/SHAPE/ct2/           the same for CTranslate2 (made by ctranslate2_worker.py)

Without hf a Q4_K_M of a hybrid or of a large shape (shapes.NARROW) is made of a small file (repeated.py). What exists is
not made again.

Each tensor depends on the seed and its name alone; the vocabulary of GGUF files is synthetic. Runs inside the peers'
environment (numpy, gguf; llama-cpp-python for mixtures, torch and transformers for hybrids).
Usage: weights.py DIR SHAPE [hf|BF16|F16|F32|Q8_0|Q4_0|Q4_K_M]...
"""

import json
import os
import pathlib
import sys
import zlib

import numpy as np

import shapes

ROOT = pathlib.Path(__file__).resolve().parents[3]
SEED = 20
MIXTURES = ("Q4_K_M",)  # made from BF16.gguf, which is named before them


def draw(name, shape, kind):
    """One tensor as BF16 bits, uint16."""
    generator = np.random.Generator(np.random.SFC64([SEED, zlib.crc32(name.encode())]))
    values = generator.standard_normal(shape, dtype=np.float32)
    values *= np.float32(0.1 if kind == shapes.NORM else 0.02)
    if kind == shapes.NORM:
        values += np.float32(1)
    bits = values.view(np.uint32)
    bits += np.uint32(0x7FFF) + ((bits >> 16) & 1)  # to nearest even
    return (bits >> 16).astype(np.uint16)

OF_VOCABULARY = ("token_embd.weight", "per_layer_token_embd.weight", "output.weight")


def floats(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def write_atomically(path, write):
    """write(stream) fills a file that appears under its name only when it is whole."""
    temporary = path.with_suffix(path.suffix + ".part")
    with open(temporary, "wb") as stream:
        write(stream)
    os.replace(temporary, path)


def make_checkpoint(directory, config):
    """config.json and model.safetensors."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    file = directory / "model.safetensors"
    if file.exists():
        return file
    listed = shapes.tensors(config)
    header = json.dumps(shapes.safetensors_header([(name, shape) for name, shape, _ in listed])).encode()
    header += b" " * (-len(header) % 8)

    def write(stream):
        stream.write(len(header).to_bytes(8, "little") + header)
        for name, shape, kind in listed:
            stream.write(draw(name, shape, kind).tobytes())

    write_atomically(file, write)
    return file


class Drawn:
    """The tensors of a config without a file, as Checkpoint gives them. Of matrices the first rows are repeated."""

    def __init__(self, config, rows):
        self.header = {name: (shape, kind) for name, shape, kind in shapes.tensors(config)}
        self.rows = rows

    def read(self, name):
        shape, kind = self.header[name]
        if len(shape) != 2 or shape[0] % self.rows:
            return floats(draw(name, shape, kind))
        return np.tile(floats(draw(name, (self.rows, shape[1]), kind)), (shape[0] // self.rows, 1))


class Checkpoint:
    """Tensors of a BF16 safetensors file as FP32 arrays, read through a map."""

    def __init__(self, file):
        raw = np.memmap(file, dtype=np.uint8, mode="r")
        size = int.from_bytes(bytes(raw[:8]), "little")
        self.header = json.loads(bytes(raw[8:8 + size]))
        self.header.pop("__metadata__", None)
        self.data = raw[8 + size:]

    def read(self, name):
        """GPT-2's names may have a prefix."""
        row = self.header.get(name) or self.header["transformer." + name]
        begin, end = row["data_offsets"]
        return floats(self.data[begin:end].view(np.uint16)).reshape(row["shape"])


def gpt2_words(config):
    """Yields (GGUF name, safetensors name, change of the FP32 array)."""
    yield "token_embd.weight", "wte.weight", None
    yield "position_embd.weight", "wpe.weight", None
    for i in range(config["n_layer"]):
        for ours, theirs in (("attn_norm", "ln_1"), ("attn_qkv", "attn.c_attn"), ("attn_output", "attn.c_proj"),
                             ("ffn_norm", "ln_2"), ("ffn_up", "mlp.c_fc"), ("ffn_down", "mlp.c_proj")):
            yield f"blk.{i}.{ours}.weight", f"h.{i}.{theirs}.weight", np.transpose
            yield f"blk.{i}.{ours}.bias", f"h.{i}.{theirs}.bias", None
    yield "output_norm.weight", "ln_f.weight", None
    yield "output_norm.bias", "ln_f.bias", None


def pairs_interleaved(heads):
    """Rows of Q or K as llama.cpp rotates them: neighbours are a pair, not halves of a head."""
    def change(rows):
        dim = rows.shape[0] // heads
        return rows.reshape(heads, 2, dim // 2, -1).swapaxes(1, 2).reshape(rows.shape)
    return change


ATTENTION_WORDS = (("attn_norm", "input_layernorm"), ("attn_q", "self_attn.q_proj"), ("attn_k", "self_attn.k_proj"),
                   ("attn_v", "self_attn.v_proj"), ("attn_output", "self_attn.o_proj"),
                   ("ffn_norm", "post_attention_layernorm"))
MLP_WORDS = (("gate", "gate_proj"), ("up", "up_proj"), ("down", "down_proj"))


def llama_words(config):
    yield "token_embd.weight", "model.embed_tokens.weight", None
    changes = {"attn_q": pairs_interleaved(config["num_attention_heads"]),
               "attn_k": pairs_interleaved(config["num_key_value_heads"])}
    for i in range(config["num_hidden_layers"]):
        for ours, theirs in (*ATTENTION_WORDS, *((f"ffn_{ours}", f"mlp.{theirs}") for ours, theirs in MLP_WORDS)):
            yield f"blk.{i}.{ours}.weight", f"model.layers.{i}.{theirs}.weight", changes.get(ours)
    yield "output_norm.weight", "model.norm.weight", None


def qwen3_moe_words(config):
    """Experts of a layer are one tensor: a list of names."""
    yield "token_embd.weight", "model.embed_tokens.weight", None
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        for ours, theirs in (*ATTENTION_WORDS, ("attn_q_norm", "self_attn.q_norm"), ("attn_k_norm", "self_attn.k_norm")):
            yield f"blk.{i}.{ours}.weight", f"{layer}{theirs}.weight", None
        yield f"blk.{i}.ffn_gate_inp.weight", layer + "mlp.gate.weight", None
        for ours, theirs in MLP_WORDS:
            yield (f"blk.{i}.ffn_{ours}_exps.weight",
                   [f"{layer}mlp.experts.{expert}.{theirs}.weight" for expert in range(config["num_experts"])], None)
    yield "output_norm.weight", "model.norm.weight", None
    yield "output.weight", "lm_head.weight", None


def add_gpt2_keys(writer, config):
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(4 * config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])


def add_llama_keys(writer, config):
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])


def add_qwen3_moe_keys(writer, config):
    add_llama_keys(writer, config)
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])


# model_type -> GGUF's architecture, tensors, keys
FAMILIES = {"gpt2": ("gpt2", gpt2_words, add_gpt2_keys), "llama": ("llama", llama_words, add_llama_keys),
            "qwen3_moe": ("qwen3moe", qwen3_moe_words, add_qwen3_moe_keys)}


def make_gguf(file, config, checkpoint, dtype):
    """Vectors stay FP32, as llama.cpp's own converter keeps them."""
    import gguf
    import vocabulary

    architecture, words, add_keys = FAMILIES[config["model_type"]]
    temporary = file.with_suffix(".part")
    writer = gguf.GGUFWriter(temporary, architecture, use_temp_file=True)
    add_keys(writer, config)
    writer.add_vocab_size(config["vocab_size"])
    vocabulary.add_to_gguf(writer, config["vocab_size"])
    if config["model_type"] == "llama" and config.get("rope_scaling"):
        writer.add_tensor("rope_freqs.weight", np.array(shapes.llama3_frequency_factors(config), dtype=np.float32))
    for name, source, change in words(config):
        sources = source if isinstance(source, list) else [source]
        one = checkpoint.read(sources[0])
        kind = gguf.GGMLQuantizationType[dtype if one.ndim > 1 and "_inp" not in name else "F32"]  # routers stay FP32
        coded = [gguf.quants.quantize(np.ascontiguousarray(change(values)) if change else values, kind)
                 for values in map(checkpoint.read, sources)]
        writer.add_tensor(name, np.stack(coded) if isinstance(source, list) else coded[0], raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(temporary, file)


def make_hybrid(file, config, checkpoint, change=None):
    """As make_gguf in BF16, by the writer of the tests' GGUF files, which knows what llama.cpp's converter does to states'
    tensors. Needs torch and transformers."""
    import torch

    sys.path.insert(0, str(ROOT / "tests" / "golden" / "gguf"))
    import make_family_gguf as family
    import vocabulary

    def add_vocabulary(writer):
        writer.add_vocab_size(config["vocab_size"])
        vocabulary.add_to_gguf(writer, config["vocab_size"])

    temporary = file.with_suffix(".part")
    architecture = {"qwen3_5_text": family.Arch.QWEN35, "qwen3_5_moe_text": family.Arch.QWEN35MOE,
                    "gemma4_text": family.Arch.GEMMA4, "lfm2": family.Arch.LFM2}[config["model_type"]]
    tensors = {name: torch.from_numpy(checkpoint.read(name)).to(torch.bfloat16) for name in checkpoint.header}
    family.write(temporary, architecture, config, tensors, more=add_vocabulary, change=change)
    os.replace(temporary, file)


def make_mixture(file, source):
    """llama.cpp's quantisation of a GGUF file."""
    import llama_cpp

    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{file.stem}")
    temporary = file.with_suffix(".part")
    if llama_cpp.llama_model_quantize(str(source).encode(), str(temporary).encode(), params) != 0:
        raise RuntimeError(f"llama.cpp did not make {file}")
    os.replace(temporary, file)


def make_alone(file, config, narrow):
    """A mixture of a source that is deleted again, in which most rows are left out; `narrow` are its other fields."""
    import repeated

    source, small, of_source = file.with_name("source.gguf"), file.with_name("small") / file.name, {**config, **narrow}
    small.parent.mkdir(exist_ok=True)
    cut = repeated.Cut()
    make_hybrid(source, of_source, Drawn(of_source, repeated.ROWS), cut)
    make_mixture(small, source)

    def whole(name, shape):
        """With all experts and words."""
        if len(shape) == 3:
            return (config["num_experts"], *shape[1:])
        return (config["vocab_size"], *shape[1:]) if name in OF_VOCABULARY else shape

    temporary = file.with_suffix(".part")
    repeated.repeat(small, temporary, config, {name: whole(name, shape) for name, shape in cut.shapes.items()},
                    lambda name, shape: floats(draw(name, shape, shapes.MATRIX)))
    small.unlink()
    source.unlink()
    os.replace(temporary, file)


def main():
    directory, shape = pathlib.Path(sys.argv[1]) / sys.argv[2], sys.argv[2]
    directory.mkdir(parents=True, exist_ok=True)
    config, wanted = shapes.CONFIGS[shape], sys.argv[3:]
    missing = [directory / f"{dtype}.gguf" for dtype in wanted if dtype != "hf"]
    missing = [file for file in missing if not file.exists()]
    checkpoint = Checkpoint(make_checkpoint(directory / "hf", config)) if "hf" in wanted else None
    for file in missing:
        if checkpoint is None:
            make_alone(file, config, shapes.NARROW.get(shape, {}))
        elif file.stem in MIXTURES:
            make_mixture(file, directory / "BF16.gguf")
        elif shape in shapes.HYBRIDS:
            make_hybrid(file, config, checkpoint)
        else:
            make_gguf(file, config, checkpoint, file.stem)


if __name__ == "__main__":
    main()
