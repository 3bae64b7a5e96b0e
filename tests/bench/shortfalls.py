# SPDX-License-Identifier: Apache-2.0
"""The reason, in one sentence, why a row of docs/benchmarks.md misses its goal. Data for make_benchmarks_page.py.

REASONS[row][machine], with "" for every machine without a sentence of its own. A row is the `page_row` or name of a goal,
the work of a peers' row, or the script of a load figure. Sentences of rows that pass are not printed.
"""

DISTURBED = "the host is shared: the same call ran at 0.54 and at 0.81 of its roof within one run"
SMALL_FP8 = "FP8 3072x768 is 2.4 MB, 60 us a call: too short to hide its start-up and to fill the prefetch pipeline"
NEIGHBOUR = "the medians swing by a factor of 3 with the neighbour on the core"

REASONS = {
    "BF16 GEMM, M 256 to 2048, of the BF16 peak": {"cascade-lake-2c": DISTURBED},
    "BF16 GEMM, all threads against one": {
        "zen4-2c": "in two cases the host ran both virtual processors on one core",
        "cascade-lake-2c": DISTURBED,
    },
    "GEMM with FP32; FP16; FP8 weights, of their peak": {"cascade-lake-2c": DISTURBED},
    "GEMV, M 1 and 4, of DRAM read; one thread, all": {
        "zen5-2c": SMALL_FP8,
        "zen4-2c": "four FP8 or FP16 rows cost as many cycles a cache line as DRAM needs to deliver it",
        "cascade-lake-2c": SMALL_FP8,
    },
    "small batches, M 8, 16, 32; one thread, all": {
        "zen5-2c": SMALL_FP8,
        "zen4-2c": "calls of about 100 us end with the slower thread",
        "cascade-lake-2c": "without VBMI, decoding 64 FP8 codes takes 18 operations, a third of the multiply-adds at M 8",
    },
    "FLASH prefill, d128; d64; 512 tokens": {"cascade-lake-2c": DISTURBED},
    "paged decode attention, of DRAM read; one thread, all": {
        "zen5-2c": "KV pages give runs of 4 KB, while the roof is one sequential run that the processor prefetches far ahead",
        "zen4-2c": "reading blocks of 2 to 4 KB in random order reaches 0.57 to 0.73 of the sequential roof on one thread",
        "cascade-lake-2c": "8 query heads to a KV head need 90% of the multiply-add peak to read at 80% of DRAM speed",
    },
    "GPT-2 124M: outside GEMM and attention, decode; prefill": {"cascade-lake-2c": DISTURBED},
    "decode, batch 1: BF16, of DRAM read; Llama-1B, FP8 against BF16": {"cascade-lake-2c": DISTURBED},
    "llama-1b prefill bf16; fp8": {
        "zen5-2c": "this round met a slow minute; three rounds against PyTorch alone gave a median of 1.38x",
        "zen4-2c": "PyTorch reaches 0.76 of the BF16 peak, of which 1.3x would be 0.99",
    },
    "llama-1b decode_b8 bf16; fp8": {
        "zen5-2c": "memory alternates between 46 and 84 GB/s here; between the fastest calls the ratio is 1.72x",
    },
    "gpt2-124m prefill bf16; fp8": {
        "cascade-lake-2c": "prefill is as fast as its GEMMs, and oneDNN's FP32 GEMM is good on this processor",
    },
    "qwen3-30b-a3b-8l: BF16 prefill, BF16 decode_b1, Q4_K_M prefill, Q4_K_M decode_b1": {
        "zen4-2c": "decode reads the active weights at 0.93 of DRAM read (1.22x between the fastest steps)",
    },
    "attention: sdpa fp32": {
        "zen5-2c": "EFFICIENT is within 2% of the goal",
        "zen4-2c": "PyTorch reaches 0.40 of the FP32 peak; with heads of 32, the softmax alone takes a tenth",
        "cascade-lake-2c": "dense attention with heads of 32 is about as fast as PyTorch's flash kernel",
        "sapphire-rapids-2c": "with heads of 32 a tile product is one step deep, and the softmax dominates",
    },
    "attention: sdpa bf16": {
        "cascade-lake-2c": "dense attention with heads of 32 is about as fast as PyTorch's flash kernel",
        "sapphire-rapids-2c": "with heads of 32 a tile product is one step deep, and the softmax dominates",
    },
    "attention: prefill fp32": {
        "zen4-2c": "PyTorch reaches 0.45 to 0.52 of the FP32 peak, of which 2.5x is more than there is",
        "cascade-lake-2c": "about as fast as PyTorch's flash kernel from 2048 tokens on",
        "sapphire-rapids-2c": NEIGHBOUR,
    },
    "attention: prefill bf16": {
        "cascade-lake-2c": "about as fast as PyTorch's flash kernel from 2048 tokens on",
        "sapphire-rapids-2c": "PyTorch uses the tile registers too, and the softmax takes a third of the time",
    },
    "attention: decode fp32": {
        "": "without groups, PyTorch reads as little memory as Dunlin does",
        "sapphire-rapids-2c": NEIGHBOUR,
    },
    "overload.sh": {
        "zen5-2c": "19 refusals of 36 us beside each 2.7 ms response take a fifth of a processor",
    },
}


def reason(row, machine):
    """The sentence, or None."""
    of_row = REASONS.get(row, {})
    return of_row.get(machine, of_row.get(""))
