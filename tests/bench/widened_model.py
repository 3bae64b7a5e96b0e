#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the GGUF file of a Llama with grouped attention again, as wide as asked for: the rest of every matrix is zero, so
that it says the same at the cost of a larger model. For measures of speculation, which need text that means something and
a large model, of which the package registries have none. With no width of its own it only changes the type of the weights.

Usage: widened_model.py IN.gguf OUT.gguf [--hidden 2048 --ffn 6144 --heads 32] [--type BF16|Q4_0|Q8_0|F32]
Needs numpy and gguf.
"""

import argparse
import math

import gguf
import numpy as np


class Widened:
    def __init__(self, path, hidden, ffn, heads):
        self.reader = gguf.GGUFReader(path)
        self.hidden = self.of_model("embedding_length")
        self.heads = self.of_model("attention.head_count")
        self.kv_heads = self.of_model("attention.head_count_kv")
        self.epsilon = self.of_model("attention.layer_norm_rms_epsilon")
        self.head_dim = self.hidden // self.heads
        self.is_wider = hidden > 0
        self.to_hidden = hidden or self.hidden
        self.to_ffn = ffn or self.of_model("feed_forward_length")
        self.to_heads = heads or self.heads
        if self.is_wider and self.to_heads * self.head_dim != self.to_hidden:
            raise SystemExit(f"{heads} heads of {self.head_dim} are no {hidden} columns")

    def of_model(self, key):
        return self.reader.get_field(f"llama.{key}").contents()

    def keys(self):
        """What the file says in place of its own."""
        if not self.is_wider:
            return {}
        # The norm divides by the root of the mean square, which has as many zeros more.
        return {"llama.embedding_length": self.to_hidden, "llama.feed_forward_length": self.to_ffn,
                "llama.attention.head_count": self.to_heads, "llama.attention.head_count_kv": self.to_heads,
                "llama.attention.layer_norm_rms_epsilon": self.epsilon * self.hidden / self.to_hidden}

    def values(self, tensor):
        part = tensor.name.split(".")[-2]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if not self.is_wider:
            return values
        if part.endswith("norm"):
            return self.padded(values * np.float32(math.sqrt(self.hidden / self.to_hidden)), (self.to_hidden,))
        if part in ("token_embd", "output"):
            return self.padded(values, (values.shape[0], self.to_hidden))
        if part in ("attn_k", "attn_v"):  # a head for each of the queries
            heads = values.reshape(self.kv_heads, self.head_dim, self.hidden)
            values = np.repeat(heads, self.heads // self.kv_heads, axis=0).reshape(-1, self.hidden)
        if part.startswith("attn"):
            return self.padded(values, (self.to_hidden, self.to_hidden))
        return self.padded(values, (self.to_hidden, self.to_ffn) if part == "ffn_down" else (self.to_ffn, self.to_hidden))

    @staticmethod
    def padded(values, shape):
        wide = np.zeros(shape, np.float32)
        wide[tuple(slice(0, count) for count in values.shape)] = values
        return wide


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--hidden", type=int, default=0)
    parser.add_argument("--ffn", type=int, default=0)
    parser.add_argument("--heads", type=int, default=0)
    parser.add_argument("--type", default="BF16", choices=("BF16", "Q4_0", "Q8_0", "F32"))
    options = parser.parse_args()
    model = Widened(options.source, options.hidden, options.ffn, options.heads)
    kind = gguf.GGMLQuantizationType[options.type]
    writer = gguf.GGUFWriter(options.target, "llama", use_temp_file=True)
    replaced = {**model.keys(), "general.file_type": int(gguf.LlamaFileType[
        {"BF16": "MOSTLY_BF16", "Q4_0": "MOSTLY_Q4_0", "Q8_0": "MOSTLY_Q8_0", "F32": "ALL_F32"}[options.type]])}
    for name, field in model.reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = replaced.get(name, field.contents())
        writer.add_key_value(name, value, field.types[0], field.types[1] if len(field.types) > 1 else None)
    for tensor in model.reader.tensors:
        values = model.values(tensor)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
