# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of `make bench` and their goals. Data only: run_goals.py reads it.

A run is a command line of `dunlin bench`, with `threads` "one", "all" or both. A goal selects records by equal fields
(`where`; a tuple allows any of its values), takes a metric of each, and compares the worst with `least` or `most`.
Metrics: the name of a field, dotted where it is nested; "scaling" is the median time on one thread over that on all;
"paired_ratio" falls back to roofline_ratio where it was not measured or is implausibly high; "against" is the ratio of
`field` to that of the record with the fields of `other`; `same_memory` scales it to one DRAM speed where memory bounds
both, because that may have changed between the two. Neighbouring goals with the same `page_row` share a
row of docs/benchmarks.md.
"""

RUNS = [
    {"args": ["gemm", "--case", "gpt2", "--max-seconds", "1.5"], "threads": ["one", "all"]},
    {"args": ["gemm", "--case", "llama-1b", "--precision", "bf16", "--max-seconds", "2.5"], "threads": ["one", "all"]},
    {"args": ["gemm", "--shape", "256,6144,4096", "--precision", "bf16", "--max-seconds", "2.5"],
     "threads": ["one", "all"]},
    {"args": ["gemm", "--case", "gemv", "--max-seconds", "0.4"], "threads": ["one", "all"]},
    {"args": ["gemm", "--case", "small-batch", "--precision", "bf16,fp8", "--max-seconds", "0.4"],
     "threads": ["one", "all"]},
    {"args": ["attention", "--case", "prefill", "--max-seconds", "2.5"], "threads": ["one", "all"]},
    {"args": ["attention", "--case", "decode", "--max-seconds", "0.5"], "threads": ["one", "all"]},
    {"args": ["attention", "--case", "sdpa", "--max-seconds", "3"], "threads": ["all"]},
    {"args": ["attention", "--case", "xformers", "--max-seconds", "3"], "threads": ["all"]},
    {"args": ["layer", "--case", "te", "--scale", "0.125", "--max-seconds", "1"], "threads": ["all"]},
    {"args": ["layer", "--case", "nanogpt", "--precision", "fp16,bf16", "--max-seconds", "2"], "threads": ["all"]},
    {"args": ["encoder", "--case", "minilm-l6", "--prompt-tokens", "128", "--max-seconds", "1"], "threads": ["all"]},
    {"args": ["model", "--case", "gpt2-124m", "--precision", "bf16", "--max-seconds", "5"], "threads": ["all"]},
    {"args": ["model", "--case", "llama-1b", "--precision", "bf16,fp8", "--batch", "1", "--max-seconds", "5"],
     "threads": ["all"]},
]

PREFILL_LAYERS = {"op": "gemm", "case": ("gpt2", "llama-1b", "shape")}

GOALS = [
    {"name": "BF16 GEMM, M 256 to 2048, of the BF16 peak", "where": {**PREFILL_LAYERS, "precision": "bf16"},
     "metric": "paired_ratio", "least": 0.90, "threads": "one"},
    {"name": "BF16 GEMM, all threads against one", "where": {**PREFILL_LAYERS, "precision": "bf16"},
     "metric": "scaling", "least": 1.85, "threads": "all"},
    {"name": "FP32 GEMM, of the FP32 peak", "page_row": "GEMM with FP32; FP16; FP8 weights, of their peak",
     "where": {**PREFILL_LAYERS, "precision": "fp32"},
     "metric": "paired_ratio", "least": 0.88, "threads": "one"},
    {"name": "FP16-weight GEMM, of the FP32 peak", "page_row": "GEMM with FP32; FP16; FP8 weights, of their peak",
     "where": {**PREFILL_LAYERS, "precision": "fp16"},
     "metric": "paired_ratio", "least": 0.85, "threads": "one"},
    {"name": "FP8-weight GEMM, of the BF16 peak", "page_row": "GEMM with FP32; FP16; FP8 weights, of their peak",
     "where": {**PREFILL_LAYERS, "precision": "fp8"},
     "metric": "paired_ratio", "least": 0.83, "threads": "one"},
    {"name": "GEMV, M 1 and 4, of DRAM read, one thread", "page_row": "GEMV, M 1 and 4, of DRAM read; one thread, all",
     "where": {"op": "gemm", "case": "gemv"},
     "metric": "paired_ratio", "least": 0.92, "threads": "one"},
    {"name": "GEMV, M 1 and 4, of DRAM read, all threads", "page_row": "GEMV, M 1 and 4, of DRAM read; one thread, all",
     "where": {"op": "gemm", "case": "gemv"},
     "metric": "paired_ratio", "least": 0.92, "threads": "all"},
    {"name": "small batches, M 8, 16, 32, one thread", "page_row": "small batches, M 8, 16, 32; one thread, all",
     "where": {"op": "gemm", "case": "small-batch"},
     "metric": "paired_ratio", "least": 0.85, "threads": "one"},
    {"name": "small batches, M 8, 16, 32, all threads", "page_row": "small batches, M 8, 16, 32; one thread, all",
     "where": {"op": "gemm", "case": "small-batch"},
     "metric": "paired_ratio", "least": 0.85, "threads": "all"},
    {"name": "FLASH prefill, d128, 2048 and 4096 tokens", "page_row": "FLASH prefill, d128; d64; 512 tokens",
     "where": {"case": "prefill", "backend": "flash", "shape": ([1, 32, 2048, 128], [1, 32, 4096, 128])},
     "metric": "paired_ratio", "least": 0.80, "threads": "one"},
    {"name": "FLASH prefill, d64, 2048 and 4096 tokens", "page_row": "FLASH prefill, d128; d64; 512 tokens",
     "where": {"case": "prefill", "backend": "flash", "shape": ([1, 32, 2048, 64], [1, 32, 4096, 64])},
     "metric": "paired_ratio", "least": 0.70, "threads": "one"},
    {"name": "FLASH prefill, 512 tokens", "page_row": "FLASH prefill, d128; d64; 512 tokens",
     "where": {"case": "prefill", "backend": "flash", "shape": ([1, 32, 512, 64], [1, 32, 512, 128])},
     "metric": "paired_ratio", "least": 0.62, "threads": "one"},
    {"name": "paged decode attention, of DRAM read, one thread", "page_row": "paged decode attention, of DRAM read; one thread, all",
     "where": {"case": "decode", "backend": "flash"},
     "metric": "paired_ratio", "least": 0.80, "threads": "one"},
    {"name": "paged decode attention, of DRAM read, all threads", "page_row": "paged decode attention, of DRAM read; one thread, all",
     "where": {"case": "decode", "backend": "flash"},
     "metric": "paired_ratio", "least": 0.80, "threads": "all"},
    {"name": "xformers: workspace of FLASH against MATH's", "where": {"case": "xformers", "backend": "flash"},
     "metric": "against", "field": "workspace_bytes", "other": {"backend": "math"}, "most": 0.02, "threads": "all"},
    {"name": "nanogpt block: products of eager, of their peak",
     "where": {"case": "nanogpt", "execution": "eager"},
     "metric": "gemm_roofline_ratio", "least": 0.85, "threads": "all"},
    {"name": "GPT-2 124M: outside GEMM and attention, decode", "page_row": "GPT-2 124M: outside GEMM and attention, decode; prefill",
     "where": {"op": "model", "case": "gpt2-124m", "phase": "decode"},
     "metric": "outside_gemm_and_attention", "most": 0.05, "threads": "all"},
    {"name": "GPT-2 124M: outside GEMM and attention, prefill", "page_row": "GPT-2 124M: outside GEMM and attention, decode; prefill",
     "where": {"op": "model", "case": "gpt2-124m", "phase": "prefill"},
     "metric": "outside_gemm_and_attention", "most": 0.08, "threads": "all"},
    {"name": "decode, batch 1, BF16, of DRAM read",
     "where": {"op": "model", "phase": "decode", "batch": 1, "precision": "bf16"},
     "metric": "paired_ratio", "least": 0.85, "threads": "all"},
    {"name": "Llama-1B decode, batch 1: FP8 against BF16",
     "where": {"op": "model", "case": "llama-1b", "phase": "decode", "batch": 1, "precision": "fp8"},
     "metric": "against", "field": "tokens_per_s", "other": {"precision": "bf16"}, "same_memory": True, "least": 1.7,
     "threads": "all"},
    {"name": "RSS against weights + KV pool + workspace + 150 MB",
     "where": {"op": "model", "phase": "decode"},
     "metric": "memory.rss_over_plan_ratio", "most": 1.0, "threads": "all"},
]
