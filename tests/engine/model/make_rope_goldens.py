# SPDX-License-Identifier: Apache-2.0
"""Writes rope_goldens.json: inverse frequencies and attention factors as transformers computes them.

Run by hand with torch and transformers 5.23 installed; the C++ test reads the file. Each case is a llama config.json.
"""
import json
import pathlib

from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

BASE = {
    "model_type": "llama", "num_hidden_layers": 1, "hidden_size": 128, "intermediate_size": 8,
    "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 32, "max_position_embeddings": 8192,
}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 1024}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}

CASES = {
    "default": {},
    "default_head_dim_128_theta_500000": {"head_dim": 128, "rope_theta": 500000.0},
    "default_head_dim_20_theta_integer": {"head_dim": 20, "rope_theta": 1000000},
    "default_parameters_5": {"rope_parameters": {"rope_type": "default", "rope_theta": 50000.0}},
    "empty_scaling": {"rope_scaling": None, "rope_theta": 20000.0},
    "linear_old_key": {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "linear_parameters_5": {"rope_parameters": {"rope_type": "linear", "factor": 2.5, "rope_theta": 30000.0}},
    "llama3_4": {"rope_scaling": LLAMA3, "rope_theta": 500000.0},
    "llama3_llama_1b": {"rope_scaling": LLAMA3 | {"factor": 32.0, "original_max_position_embeddings": 8192},
                        "rope_theta": 500000.0, "max_position_embeddings": 131072},
    "llama3_parameters_5": {"rope_parameters": LLAMA3 | {"rope_theta": 10000.0}},
    "llama3_original_is_context": {
        "rope_scaling": {k: v for k, v in LLAMA3.items() if k != "original_max_position_embeddings"}},
    "yarn": {"rope_scaling": YARN},
    "yarn_parameters_5": {"rope_parameters": YARN | {"rope_theta": 1000000.0}},
    "yarn_type_key": {"rope_scaling": {"type": "yarn", "factor": 16.0, "original_max_position_embeddings": 512}},
    "yarn_factor_null": {"rope_scaling": YARN | {"factor": None}},
    "yarn_betas": {"rope_scaling": YARN | {"beta_fast": 16.0, "beta_slow": 2.0}},
    "yarn_betas_zero": {"rope_scaling": YARN | {"beta_fast": 0, "beta_slow": 0}},
    "yarn_not_truncated": {"rope_scaling": YARN | {"truncate": False}},
    "yarn_attention_factor": {"rope_scaling": YARN | {"attention_factor": 1.25}},
    "yarn_mscale": {"rope_scaling": YARN | {"mscale": 0.707, "mscale_all_dim": 1.0}},
    "yarn_mscale_alone": {"rope_scaling": YARN | {"mscale": 0.707}},
    "yarn_narrow_head": {"head_dim": 4, "rope_scaling": YARN | {"original_max_position_embeddings": 64}},
}

goldens = []
for name, changes in CASES.items():
    config = BASE | changes
    rope = LlamaRotaryEmbedding(LlamaConfig(**{k: (dict(v) if isinstance(v, dict) else v) for k, v in config.items()}))
    goldens.append({"name": name, "config": config, "attention_factor": float(rope.attention_scaling),
                    "inv_freq": [float(f"{value:.9g}") for value in rope.inv_freq.tolist()]})
path = pathlib.Path(__file__).with_name("rope_goldens.json")
lines = [json.dumps(golden) for golden in goldens]
path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
