# SPDX-License-Identifier: Apache-2.0
"""The attention cases that are compared with PyTorch's scaled_dot_product_attention, and the goals. Standard library only.

kind: the case of `dunlin bench attention`. Prefill and decode read KV pages there, and contiguous tensors in PyTorch.
ours: the backends of `dunlin bench attention`; backends: those of PyTorch on a CPU.
"""

FASTER = 2.5  # causal prefill
GATHERED = 1.5  # decode


def prefill(dim, heads, tokens):
    return {"name": f"prefill_d{dim}_{tokens}", "kind": "prefill", "batch": 1, "heads": heads, "kv_heads": heads, "queries": tokens,
            "keys": tokens, "dim": dim, "causal": True, "backends": ["flash"], "ours": ["flash"],
            "goals": {"flash": FASTER}}


def decode(sequences, context, heads, kv_heads, dim):
    return {"name": f"decode_s{sequences}_{context}_g{heads // kv_heads}", "kind": "decode", "batch": sequences, "heads": heads,
            "kv_heads": kv_heads, "queries": 1, "keys": context, "dim": dim, "causal": False,
            "backends": ["math", "flash"], "ours": ["flash", "efficient"],
            "goals": {"flash": GATHERED, "efficient": GATHERED}}


CASES = [
    {"name": "sdpa", "kind": "sdpa", "batch": 64, "heads": 32, "kv_heads": 32, "queries": 256, "keys": 256, "dim": 32, "causal": False,
     "backends": ["math", "flash"], "ours": ["flash", "efficient", "math"],
     "goals": {"flash": 2.0, "efficient": 2.0, "math": 1.0}},
    *[prefill(64, 12, tokens) for tokens in (512, 2048, 4096)],
    *[prefill(128, 32, tokens) for tokens in (512, 2048, 4096)],
    decode(1, 8192, 32, 32, 128),
    decode(1, 8192, 32, 8, 128),
    decode(8, 2048, 32, 8, 128),
    decode(32, 1024, 32, 8, 64),
]
