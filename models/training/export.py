# SPDX-License-Identifier: Apache-2.0
"""Writes the demo model's Hugging Face files from a training checkpoint: weights in BF16.

Usage: export.py --work DIR --out MODEL_DIR
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file

from train import CONTEXT, HEADS, HIDDEN, LAYERS, VOCAB

END_OF_TEXT, END_OF_MESSAGE = 0, 2
CONFIG = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": VOCAB, "n_positions": CONTEXT,
    "n_ctx": CONTEXT, "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS, "n_inner": None,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "initializer_range": 0.02,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False, "reorder_and_upcast_attn": False, "use_cache": True,
    "tie_word_embeddings": True, "bos_token_id": END_OF_TEXT, "eos_token_id": END_OF_TEXT, "torch_dtype": "bfloat16",
}
GENERATION = {"bos_token_id": END_OF_TEXT, "eos_token_id": [END_OF_MESSAGE, END_OF_TEXT], "pad_token_id": END_OF_TEXT,
              "do_sample": True, "temperature": 0.6, "top_k": 40, "top_p": 0.9}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--work", type=pathlib.Path, required=True)
    arguments.add_argument("--out", type=pathlib.Path, required=True)
    args = arguments.parse_args()
    saved = torch.load(args.work / "checkpoint.pt")
    tensors = {}
    for name, p in saved["model"].items():
        # GPT-2's Conv1D keeps [in, out]; nn.Linear keeps [out, in].
        p = p.t() if p.dim() == 2 and name.startswith("h.") else p
        tensors["transformer." + name] = p.to(torch.bfloat16).contiguous()
    args.out.mkdir(parents=True, exist_ok=True)
    # Renamed into place: a server may have the old file mapped.
    save_file(tensors, str(args.out / "model.tmp"), metadata={"format": "pt"})
    (args.out / "model.tmp").chmod(0o644)
    (args.out / "model.tmp").rename(args.out / "model.safetensors")
    for name, value in (("config.json", CONFIG), ("generation_config.json", GENERATION)):
        (args.out / name).write_text(json.dumps(value, indent=2) + "\n")
    print("step", saved["step"], "bytes", (args.out / "model.safetensors").stat().st_size)


if __name__ == "__main__":
    main()
