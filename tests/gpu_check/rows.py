# SPDX-License-Identifier: Apache-2.0
"""The rows of gpu_check.sh as data: what runs on a GPU, what a rehearsal on the CPU runs instead, what PyTorch runs
beside it. Standard library only.

`expected` seconds are those of an H100 with 16 processors, on which most rows ran once, or estimates from the time of
rows like them. Of a part they add up to at most PART_SECONDS, when the part stops hard: parts 1 and 2, opening and
packing included, fit a lease of 15 minutes. Rows that are `together` run at once, each in a process of its own; of a part
they come first, since what is measured must be alone on the machine.
"""

import dataclasses

PART_SECONDS = {"1": 300, "2": 300, "3": 150, "sanitize": 300}

LLAMA_8B = {"layers": 32, "hidden": 4096, "ffn": 14336, "heads": 32, "kv_heads": 8, "dim": 128, "vocab": 128256}
LLAMA_1B = {"layers": 16, "hidden": 2048, "ffn": 8192, "heads": 32, "kv_heads": 8, "dim": 64, "vocab": 128256}
SMALL = {"layers": 6, "hidden": 256, "ffn": 1024, "heads": 8, "kv_heads": 4, "dim": 32, "vocab": 4096}
TINY = {"layers": 2, "hidden": 64, "ffn": 128, "heads": 4, "kv_heads": 2, "dim": 16, "vocab": 512}


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    part: str  # a key of PART_SECONDS
    expected: int  # seconds; of rows that run together, each one's own
    limit: int  # seconds, PyTorch's share included
    kind: str  # a key of kinds.KINDS
    gpu: tuple  # arguments of the kind, on a GPU
    rehearsal: tuple  # the same in a rehearsal
    peer: dict | None = None  # the job of torch_worker.py
    small_peer: dict | None = None  # the same in a rehearsal
    gib: int = 0  # GPU memory that it needs; 0: little
    together: bool = False  # runs beside the part's other rows that are
    goal: float = 0  # of the roof, for each record of a bench on a GPU; what is under it is named; 0: none
    shard: tuple = (0, 1)  # of a test program's tests on a GPU: which of how many shares (gtest's sharding)


def bench(name, part, expected, limit, gpu, rehearsal, peer=None, small_peer=None, gib=0, goal=0):
    return Row(name, part, expected, limit, "bench", (gpu,), (rehearsal,), peer, small_peer, gib, goal=goal)


def tiles(name, part, expected, limit, gpu, rehearsal, gib=0):
    """A bench that times every tile shape of its products first, by rows and weight: what their tables should say."""
    cache = " --cublas-algorithm-cache OUT/tiles"
    return dataclasses.replace(bench(name, part, expected, limit, gpu + cache, rehearsal + cache, gib=gib), kind="tiles")


def gtest(name, part, expected, limit, program, gpu, rehearsal):
    """Most of its time is the host's, which computes what the device is compared with."""
    return Row(name, part, expected, limit, "gtest", (program, gpu), (program, rehearsal), together=True)


def shards(count, row):
    """A row's tests in `count` rows that run together: name_1 to name_count."""
    return [dataclasses.replace(row, name=f"{row.name}_{i + 1}", shard=(i, count)) for i in range(count)]


def served(name, expected, limit, gib=0):
    return Row(name, "2", expected, limit, "served", (name,), (name,), gib=gib)


def sanitizer(tool, expected, limit, operations, attention):
    small = ("Fake/DeviceStepTest.*", "*WhatARowDoesNotSee*/fake_flash_bf16")
    return Row(f"sanitize_{tool}", "sanitize", expected, limit, "sanitizer", (tool, operations, attention),
               (tool, *small))


def sdpa(shape, kv_heads, queries, causal, precisions, uniform=False, cold=False):
    """shape as in `dunlin bench attention`: batch, heads, keys, dim."""
    batch, heads, keys, dim = shape
    return {"job": "sdpa", "batch": batch, "heads": heads, "kv_heads": kv_heads,
            "queries": queries or keys, "keys": keys, "dim": dim, "causal": causal,
            "precisions": precisions, "uniform": uniform, "cold": cold}


def scored(shape, kv_heads, queries, softcap=0.0, alibi=False):
    """As sdpa, of causal attention in BF16 whose scores have a soft cap or ALiBi."""
    return {**sdpa(shape, kv_heads, queries, True, ["bf16"], cold=queries == 1), "job": "scored", "softcap": softcap,
            "alibi": alibi}


SMALL_SDPA = sdpa((2, 4, 33, 16), 4, 0, True, ["fp32", "fp16", "bf16"])
SMALL_PAGES = "--shape 2,4,40,32 --precision bf16"


def layer(precision, part, expected):
    args = f"layer --case te --precision {precision}"
    peer = {"job": "layer", "precision": precision, "batch": 4, "tokens": 2048, "hidden": 4096, "heads": 32,
            "ffn": 16384}
    small = {**peer, "batch": 1, "tokens": 16, "hidden": 64, "heads": 2, "ffn": 256}
    return bench(f"layer_{precision}", part, expected, 60, args, args + " --scale 0.01", peer, small, gib=8)


def recipes():
    """The FP8 recipes that layer_fp8, with the case's own, does not run. No PyTorch: layer_fp8 has its ways."""
    args = "layer --case te --precision fp8 --fp8-recipe static,current"
    return bench("layer_fp8_recipes", "2", 8, 40, args, args + " --scale 0.01", gib=8)


def square(precision):
    return bench(f"gemm_8192_{precision}", "1", 8, 40, f"gemm --shape 8192,8192,8192 --precision {precision}",
                 f"gemm --shape 33,48,64 --precision {precision}",
                 {"job": "gemm", "precision": precision, "shape": [8192, 8192, 8192]},
                 {"job": "gemm", "precision": precision, "shape": [32, 48, 64]}, gib=2)


def experts(case, part, expected, precisions):
    """The products of a mixture's experts, whose rows the device alone knows, of a step that decodes and a prompt; before
    them every tile shape by the mean rows of an expert."""
    return tiles(f"experts_{case.split('-')[0]}", part, expected, 50,
                 f"experts --case {case} --precision {precisions}", "experts --shape 3,4,2,48,64 --precision bf16", gib=8)


def few_rows(name, rows, precisions, goal):
    """Weights that are read once: the roof is reading. Prototypes reached 0.95 with 1 row and 0.90 with 64 in BF16, 0.68
    and 0.52 of the fewer bytes of integer codes."""
    return bench(f"{name}_{rows}", "1", 6, 30, f"gemm --shape {rows},28672,4096 --precision {precisions}",
                 f"gemm --shape {rows},48,64 --precision {precisions}", gib=4, goal=goal)


def llama_8b(precision, expected, gib):
    peer = {"job": "llama", "shape": LLAMA_8B, "precision": precision, "batches": [1, 32], "prompt": 512,
            "new_tokens": 64}
    small = {**peer, "shape": TINY, "batches": [2], "prompt": 8, "new_tokens": 2}
    return bench(f"llama_8b_{precision}", "2", expected, 80,
                 f"model --case llama-8b --precision {precision} --batch 1,32 --prompt-tokens 512 --new-tokens 64",
                 f"model --model ROOT/models/demo --precision {precision} --batch 2 --prompt-tokens 8 --new-tokens 2",
                 peer, small, gib)


# Opens the device in every command, before the rows that were asked for.
DEVICE = Row("device", "1", 10, 60, "device", ("gemm --shape 1,16,16 --precision bf16",),
             ("gemm --shape 1,16,16 --precision bf16",))

# Whether it is right: what takes longest first. One after another on an H100 a case of DeviceMixes took 14 s, of
# DeviceGoldens and GoldensGreedy 0.8 s.
CORRECTNESS = (
    *shards(4, gtest("mixes", "1", 45, 110, "device_models_test", "Cuda/DeviceMixes.*",
                     "Fake/DeviceMixes.*/gpt2_tiny")),
    # Precisions whose rows have the same bits in prefill and decode: pages of decode for prompts, and guesses.
    *shards(2, gtest("phases", "1", 45, 110, "device_models_test", "Cuda/DevicePhases.*", "Fake/DevicePhases.*")),
    *shards(2, gtest("goldens_profiles", "1", 35, 110, "device_models_test", "Cuda/DeviceGoldens.*",
                     "Fake/DeviceGoldens.*/gpt2_tiny")),
    *shards(2, gtest("goldens_greedy", "1", 35, 110, "device_models_test", "Cuda/GoldensGreedy.*",
                     "Fake/GoldensGreedy.*/gpt2_tiny")),
    # Models divided between two GPUs, or on one and the same: with adapters and guesses, too. Encoders, on one and on two.
    gtest("linked_models", "1", 20, 80, "device_models_test", "Cuda/Linked*:Cuda/EncoderDevices.*",
          "Fake/LinkedMixes.*/gpt2_tiny_2:Fake/LinkedAdapters.*/gpt2_tiny_3:Fake/EncoderDevices.*/bert_tiny"),
    # Steps planned over tokens that are still being drawn give the responses of steps one by one.
    gtest("planned_steps", "1", 10, 60, "device_models_test", "Cuda/PlannedSteps.*", "Fake/PlannedSteps.*/gpt2_tiny"),
    # Rows of the embedding's own table, in place of a prompt's embeddings.
    gtest("prompt_rows", "1", 10, 60, "device_models_test", "Cuda/PromptRowsBits.*", "Fake/PromptRowsBits.*/llama_gqa"),
    # Encoders of images, against transformers.
    gtest("images", "1", 5, 60, "device_models_test", "Cuda/ImageDevices.*", "Fake/ImageDevices.*/mistral3_vision"),
    gtest("image_prompts", "1", 10, 60, "device_models_test", "Cuda/ImagePrompts.*", "Fake/ImagePrompts.*/qwen3_vl_tiny"),
    gtest("operations", "1", 10, 60, "kernels_device_ops_test", "Cuda/*", "Fake/*"),
    gtest("recurrent", "1", 10, 60, "kernels_device_ops_test", "Devices/*/cuda", "Devices/*/fake"),
    gtest("attention_pages", "1", 10, 60, "kernels_device_attention_test", "*Paged*/cuda_*",
          "*Paged*TakesWindows*/fake_*"),
    gtest("attention_dense", "1", 5, 60, "kernels_device_attention_test", "*Dense*/cuda", "*Dense*AnyDim*/fake"),
)

# And how fast: the kernels' own goals.
HEADLINES = (
    # E4M3 pages beside BF16: FLASH of 9.0 widens codes on the way to the same products.
    bench("prefill_8k_pages", "1", 11, 40,
          "attention --case prefill --shape 1,32,8192,128 --kv-heads 8 --backend flash,efficient --precision bf16,fp8",
          f"attention --case prefill --backend all {SMALL_PAGES}",
          sdpa((1, 32, 8192, 128), 8, 0, True, ["bf16"]), SMALL_SDPA, gib=12),
    bench("decode_32x4k", "1", 20, 60,
          "attention --case decode --shape 32,32,4096,128 --kv-heads 8 --backend flash,efficient --precision bf16,fp8",
          f"attention --case decode --backend all {SMALL_PAGES}",
          sdpa((32, 32, 4096, 128), 8, 1, False, ["bf16"], cold=True),
          sdpa((2, 4, 40, 32), 2, 1, False, ["bf16"], cold=True), gib=8),
    Row("rank_meetings", "1", 4, 30, "meetings", ("kernels_device_ops_test", "Cuda/DeviceRanksSpeed.*"),
        ("kernels_device_ops_test", "Fake/DeviceRanksTest.*")),
    square("bf16"),
    square("fp8"),
    # What gemm_8192_bf16 and gemm_8192_fp16 are compared with on compute capability 9.0, where prompts are wgmma's.
    bench("gemm_8192_cublaslt", "1", 10, 40,
          "gemm --shape 8192,8192,8192 --precision bf16,fp16 --no-sm90-kernels --cublas-algorithm-cache OUT/algorithms",
          "gemm --shape 33,48,64 --precision bf16 --no-sm90-kernels"),
    bench("gemm_8192_fp16", "1", 5, 30, "gemm --shape 8192,8192,8192 --precision fp16",
          "gemm --shape 33,48,64 --precision fp16", gib=2),
    bench("prefill_8k_dense", "1", 8, 40,
          "attention --shape 1,32,8192,128 --causal --backend flash,efficient --precision bf16",
          "attention --shape 2,4,33,16 --causal --precision bf16",
          sdpa((1, 32, 8192, 128), 32, 0, True, ["bf16"]), SMALL_SDPA, gib=12),
    bench("llama_1b", "1", 20, 60, "model --case llama-1b --precision bf16,fp8 --batch 1,32",
          "model --model ROOT/models/demo --batch 2 --prompt-tokens 8 --new-tokens 2",
          {"job": "llama", "shape": LLAMA_1B, "precision": "bf16", "batches": [1, 32], "prompt": 512, "new_tokens": 64},
          {"job": "llama", "shape": TINY, "precision": "bf16", "batches": [2], "prompt": 8, "new_tokens": 2}, gib=8),
    # What llama_1b is compared with: every operation launched by itself.
    bench("llama_1b_no_graphs", "1", 10, 40, "model --case llama-1b --precision bf16 --batch 1,32 --no-cuda-graphs",
          "model --model ROOT/models/demo --batch 2 --prompt-tokens 8 --new-tokens 2 --no-cuda-graphs", gib=8),
    layer("fp16", "1", 25),
    few_rows("gemm_rows", 1, "bf16,fp16,fp8", 0.90),
    few_rows("gemm_rows", 64, "bf16,fp16,fp8", 0.85),
    few_rows("gemm_codes", 1, "int4,int8", 0.65),
    few_rows("gemm_codes", 64, "int4,int8", 0.50),
    bench("gemm_decode", "1", 9, 40, "gemm --case gemv --precision bf16,fp8,int4",
          "gemm --shape 1,48,64 --precision fp8,int4"),
    experts("qwen3-30b", "1", 10, "bf16,int4"),
    bench("decode_shapes", "1", 13, 40, "attention --case decode --backend flash --precision bf16",
          f"attention --case decode --backend all {SMALL_PAGES}"),
    bench("prefill_shapes", "1", 10, 40, "attention --case prefill --backend all --precision bf16",
          f"attention --case prefill --backend all {SMALL_PAGES}"),
    # Gemma 3's and Qwen 3.5's heads.
    bench("heads_of_256", "1", 6, 40,
          "attention --case prefill --shape 1,16,8192,256 --kv-heads 8 --backend flash,efficient --precision bf16,fp8",
          "attention --case prefill --backend flash --shape 1,2,40,256 --precision bf16",
          sdpa((1, 16, 8192, 256), 8, 0, True, ["bf16"]), SMALL_SDPA, gib=4),
    # Latent rows of DeepSeek V3, all of them and, of V3.2, those that each row has chosen.
    bench("latent", "1", 5, 40, "attention --case latent --backend flash --precision bf16",
          "attention --case latent --shape 2,4,41,72 --precision bf16", gib=4),
    bench("recurrent_ops", "1", 15, 50, "recurrent", "recurrent --shape 2,3", gib=2),
    bench("table_1", "1", 10, 40, "attention --case sdpa --precision fp16,bf16",
          "attention --case sdpa --shape 2,4,33,16 --precision fp16,bf16",
          sdpa((64, 32, 256, 32), 32, 0, False, ["fp16", "bf16"], uniform=True), SMALL_SDPA, gib=4),
)

REST = (
    served("served_tokens", 45, 90, gib=24),
    served("served_logits", 10, 40, gib=24),
    served("served_invariance", 8, 40, gib=24),
    served("served_cancel", 4, 30, gib=24),
    served("served_load", 34, 60, gib=24),
    llama_8b("bf16", 40, 34),
    llama_8b("fp8", 38, 30),
    layer("fp8", "2", 25),
    recipes(),
    bench("gemm_llama_8b", "2", 12, 40, "gemm --case llama-8b --precision bf16,fp8,int4", "gemm --shape 3,48,64"),
    bench("gemm_tuned", "2", 12, 40,
          "gemm --case llama-8b --precision bf16,fp8 --no-sm90-kernels --cublas-algorithm-cache OUT/algorithms",
          "gemm --shape 70,48,64 --precision bf16 --no-sm90-kernels --cublas-algorithm-cache OUT/algorithms"),
    experts("mixtral-8x7b", "2", 13, "bf16,fp8"),
    tiles("gemm_tiles", "2", 16, 40, "gemm --case llama-8b --precision bf16,fp8,int4",
          "gemm --shape 70,48,64 --precision bf16", gib=4),
    bench("table_2", "2", 8, 40, "attention --case xformers --precision fp16",
          "attention --case xformers --shape 2,4,33,16",
          sdpa((32, 16, 512, 64), 16, 0, True, ["fp16"], uniform=True), SMALL_SDPA, gib=4),
    bench("table_3", "2", 12, 50, "layer --case nanogpt --precision fp16,bf16",
          "layer --case nanogpt --precision fp16 --scale 0.01",
          {"job": "block", "precisions": ["fp16", "bf16"], "batch": 32, "tokens": 128, "hidden": 512, "heads": 8},
          {"job": "block", "precisions": ["bf16"], "batch": 1, "tokens": 8, "hidden": 64, "heads": 1}),
    # What 1, 8 and 32 low-rank adapters of rank 16 leave of the base's tokens.
    bench("llama_1b_adapters", "1", 14, 50, "model --case llama-1b --precision bf16 --batch 32 --adapters 1,8,32",
          "model --model ROOT/models/demo --batch 2 --adapters 1,2 --prompt-tokens 8 --new-tokens 3", gib=8),
    bench("encoder", "2", 4, 30, "encoder --case minilm-l6 --precision bf16,fp16 --prompt-tokens 128",
          "encoder --case minilm-l6 --precision bf16 --batch 1 --prompt-tokens 8"),
)

# What is applied to scores, in prefill and decode: Gemma 2's soft cap, and ALiBi of BLOOM's and MPT's heads. PyTorch's
# share is a compilation of flex_attention each, some ten seconds.
SCORES = (
    bench("softcap_prefill", "3", 20, 70,
          "attention --case prefill --shape 1,16,8192,256 --kv-heads 8 --backend flash,efficient --precision bf16,fp8 --softcap 50",
          f"attention --case prefill --backend all {SMALL_PAGES} --softcap 2",
          scored((1, 16, 8192, 256), 8, 0, softcap=50.0), scored((2, 4, 40, 32), 2, 0, softcap=2.0), gib=30),
    bench("softcap_decode", "3", 20, 70,
          "attention --case decode --shape 16,16,4096,256 --kv-heads 8 --backend flash --precision bf16,fp8 --softcap 50",
          f"attention --case decode --backend flash {SMALL_PAGES} --softcap 2",
          scored((16, 16, 4096, 256), 8, 1, softcap=50.0), scored((2, 4, 40, 32), 2, 1, softcap=2.0), gib=8),
    bench("alibi_prefill", "3", 20, 70,
          "attention --case prefill --shape 1,32,4096,128 --backend flash --precision bf16,fp16 --alibi",
          f"attention --case prefill --backend flash {SMALL_PAGES} --alibi",
          scored((1, 32, 4096, 128), 32, 0, alibi=True), scored((2, 4, 40, 32), 4, 0, alibi=True), gib=20),
    bench("alibi_decode", "3", 20, 70,
          "attention --case decode --shape 16,32,2048,128 --backend flash --precision bf16,fp16 --alibi",
          f"attention --case decode --backend flash {SMALL_PAGES} --alibi",
          scored((16, 32, 2048, 128), 32, 1, alibi=True), scored((2, 4, 40, 32), 4, 1, alibi=True), gib=8),
)

# Gemma 4's global layers. Of PyTorch's kernels only the memory-efficient and the plain one take heads of 512.
WIDE_HEADS = (
    bench("heads_of_512", "3", 12, 50,
          "attention --case prefill --shape 1,16,8192,512 --kv-heads 2 --backend flash,efficient --precision bf16,fp8",
          "attention --case prefill --backend flash --shape 1,2,40,512 --precision bf16",
          sdpa((1, 16, 8192, 512), 2, 0, True, ["bf16"]), SMALL_SDPA, gib=24),
    bench("heads_of_512_decode", "3", 10, 40,
          "attention --case decode --shape 16,16,4096,512 --kv-heads 2 --backend flash,efficient --precision bf16,fp8",
          "attention --case decode --backend flash --shape 1,2,40,512 --precision bf16",
          sdpa((16, 16, 4096, 512), 2, 1, False, ["bf16"], cold=True),
          sdpa((2, 4, 40, 32), 2, 1, False, ["bf16"], cold=True), gib=8),
)

# Our kernels alone are instrumented (gpu_check's sanitizer rows): cuBLASLt's would take hours.
SMALL_OPERATIONS = "Cuda/DeviceOpsTest.*:Cuda/DeviceCodesTest.*:Cuda/DeviceSelectionTest.*:Devices/*Fp64*/cuda-*MeasuresItsRoofs*"
ONE_OPERATION = ("Cuda/DeviceOpsTest.NormsAndActivations*:Cuda/DeviceOpsTest.GemmsMatch*:Cuda/DeviceStepTest.Sampled*:"
                 "Devices/*Fp64*/cuda")
SMALL_ATTENTION = "*TakesWindows*/cuda_flash_bf16:*TakesWindows*/cuda_efficient_fp8_e4m3:*AnyDim*/cuda"
ONE_ATTENTION = "*TakesWindows*/cuda_flash_bf16:*TakesWindows*/cuda_efficient_bf16"
SANITIZER = (
    sanitizer("memcheck", 92, 120, SMALL_OPERATIONS, SMALL_ATTENTION),
    sanitizer("racecheck", 92, 120, ONE_OPERATION, ONE_ATTENTION),
    sanitizer("synccheck", 52, 80, ONE_OPERATION, ONE_ATTENTION),
    sanitizer("initcheck", 52, 80, ONE_OPERATION, ONE_ATTENTION),
)

ROWS = (*CORRECTNESS, *HEADLINES, *REST, *SCORES, *WIDE_HEADS, *SANITIZER)


def expected_seconds(rows):
    """Of rows one after another, and of those that run together at once: as long as the longest."""
    together = [row.expected for row in rows if row.together]
    return sum(row.expected for row in rows if not row.together) + max(together, default=0)


def of_parts(parts):
    return [row for part in parts for row in ROWS if row.part == part]


def named(names):
    """The rows of these names, in the table's order; ValueError names the first that is unknown."""
    known = {row.name for row in ROWS}
    for name in names:
        if name not in known:
            raise ValueError(f"unknown row {name}; --list names them")
    return [row for row in ROWS if row.name in names]
