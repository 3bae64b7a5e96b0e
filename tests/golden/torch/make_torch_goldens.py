#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of checkpoints that torch.save writes, from those of tests/golden/models: the same tensors.

llama_tied/pytorch_model.bin: one file; its state dictionary is an OrderedDict of parameters with metadata.
qwen3_qk_norm/: two files and pytorch_model.bin.index.json.
nanogpt_tiny/ckpt.pt: as nanoGPT's train.py writes it, from a compiled model: model, optimizer, model_args, config.
gpt2_legacy.bin: the format before PyTorch 1.6, which is refused.

Usage: make_torch_goldens.py     (needs torch, safetensors)
"""

import collections
import json
import pathlib
import shutil

import torch
from safetensors import safe_open

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"


def tensors_of(name):
    tensors = collections.OrderedDict()
    for file in sorted((MODELS / name).glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            for key in sorted(opened.keys()):
                tensors[key] = opened.get_tensor(key)
    return tensors


def folder_of(name):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    return folder


def write_hugging_face(name, shards):
    folder, tensors = folder_of(name), tensors_of(name)
    shutil.copy(MODELS / name / "config.json", folder)
    if shards == 1:
        state = collections.OrderedDict((key, torch.nn.Parameter(value)) for key, value in tensors.items())
        state._metadata = {"": {"version": 1}}
        torch.save(state, folder / "pytorch_model.bin")
        return
    keys, weight_map = list(tensors), {}
    for shard in range(shards):
        file = f"pytorch_model-{shard + 1:05d}-of-{shards:05d}.bin"
        part = keys[shard * len(keys) // shards:(shard + 1) * len(keys) // shards]
        torch.save({key: tensors[key] for key in part}, folder / file)
        weight_map |= dict.fromkeys(part, file)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}) + "\n")


def write_nanogpt(name):
    config = json.loads((MODELS / name / "config.json").read_text())
    arguments = {key: config[key] for key in ("n_layer", "n_head", "n_embd", "block_size", "bias", "vocab_size")}
    tensors = tensors_of(name)
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(3))], lr=1e-3, betas=(0.9, 0.95))
    optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
    optimizer.step()
    # The head is the embedding: one storage under two names.
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"]
    torch.save({"model": {"_orig_mod." + key: value for key, value in tensors.items()},
                "optimizer": optimizer.state_dict(), "model_args": arguments | {"dropout": 0.0}, "iter_num": 250,
                "best_val_loss": torch.tensor(1.5), "config": {"dataset": "shakespeare_char", "beta2": 0.99}},
               folder_of(name) / "ckpt.pt")


def main():
    write_hugging_face("llama_tied", 1)
    write_hugging_face("qwen3_qk_norm", 2)
    write_nanogpt("nanogpt_tiny")
    torch.save({"wte.weight": torch.ones(2, 2)}, HERE / "gpt2_legacy.bin", _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
