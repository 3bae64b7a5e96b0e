# SPDX-License-Identifier: Apache-2.0
"""Dunlin's side of the comparison: commands of `dunlin bench`, and its JSON lines as measurements.

Standard library only.
"""

import attention_cases
import engines
import report
import shapes

MODEL_PRECISIONS = ("bf16", "fp8", "fp16", "fp32", "int8", "int4")
BY_NAME_PRECISIONS = ("bf16", "int4")
INTEGERS = ("int8", "int4")  # also with inputs of 8 bits, as models[].int8_inputs: the faster setting of a work counts
SETTINGS = {"flash": (), "flash, int8_inputs": ("--int8-inputs",)}
# A GGUF file served with its own codes, and the precision of their width.
FILE_PRECISIONS = {"Q8_0": "int8", "Q4_0": "int4", "Q4_K_M": "int4"}


def attention_command(options, case):
    command = [str(options.binary), "bench", "attention", "--json", "--threads", str(options.threads),
               "--precision", "bf16,fp32", "--max-seconds", str(options.seconds), "--backend", ",".join(case["ours"]),
               "--case", case["kind"]]
    if case["kind"] != "sdpa":
        shape = (case["batch"], case["heads"], case["keys"], case["dim"])
        command += ["--shape", ",".join(map(str, shape)), "--kv-heads", str(case["kv_heads"])]
    return tuple(command)


ROUGH_SECONDS = 0.05  # the roofs beside a batch are no part of the comparison; the batch itself has no such bound


def model_command(options, path, precision, batch, *more):
    seconds = options.decode_seconds if batch == 1 else ROUGH_SECONDS
    return (str(options.binary), "bench", "model", "--json", "--model", str(options.work / path),
            "--threads", str(options.threads), "--precision", precision, "--max-seconds", str(seconds),
            "--batch", str(batch), "--prompt-tokens", str(engines.PROMPT_TOKENS),
            "--new-tokens", str(options.new_tokens), *more)


def block_command(options, shape):
    return (str(options.binary), "bench", "layer", "--json", "--case", shape, "--precision", "bf16,fp32",
            "--threads", str(options.threads), "--max-seconds", str(options.seconds))


def jobs(options, part, shape):
    if part == "attention":
        for case in attention_cases.CASES:
            yield engines.Job(report.OURS, part, "-", "bf16", case["name"], attention_command(options, case), (case["name"],))
    elif part == "block":
        yield engines.Job(report.OURS, part, shape, "bf16", "", block_command(options, shape), ("block",))
    else:
        precisions = BY_NAME_PRECISIONS if shape in shapes.BY_NAME else MODEL_PRECISIONS
        sources = [(f"{shape}/hf", precision, precision) for precision in precisions if shape not in shapes.NARROW]
        sources += [(f"{shape}/{dtype}.gguf", precision, dtype.lower()) for dtype, precision in FILE_PRECISIONS.items()
                    if dtype in engines.gguf_dtypes(shape)]
        for path, precision, name in sources:
            for setting, more in SETTINGS.items() if precision in INTEGERS else (("flash", ()),):
                for batch in options.batches:
                    yield engines.Job(report.OURS, part, shape, name, setting,
                                      model_command(options, path, precision, batch, *more),
                                      (*["prefill"] * (batch == 1), f"decode_b{batch}"))


def measurements(line, job):
    """Of one line of a process. A worker's is one already; of ours, prefill counts at batch 1 alone."""
    if job.engine != report.OURS:
        return [line]
    if "error" in line:
        return [{"metric": "process", "error": line["error"]["message"]}]
    proof = {name: line[name] for name in ("variant", "iterations", "output_sha256", "max_abs_error_fp64", "roof",
                                           "roofline_ratio") if name in line}
    if job.part != "model":
        setting = line["backend" if job.part == "attention" else "execution"]
        return [{"metric": job.metrics[0], "precision": line["precision"], "setting": setting, "unit": "ms",
                 "value": line["median_us"] / 1e3, "best": line["min_us"] / 1e3, **proof}]
    batch, tokens = line["batch"], engines.PROMPT_TOKENS if line["phase"] == "prefill" else line["batch"]
    if line["phase"] == "prefill" and batch != 1:
        return []
    metric = "prefill" if line["phase"] == "prefill" else f"decode_b{batch}"
    rows = [{"metric": metric, "unit": "tokens/s", "value": tokens / line["median_us"] * 1e6,
             "best": tokens / line["min_us"] * 1e6, **proof}]
    if "memory" in line:
        rows.append({"metric": "rss", "unit": "bytes", "value": line["memory"]["rss_bytes"]})
    return rows
