#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of quantised files in docs/precision.md: makes each of a model's files, then measures all with precision_table.

  WORK/NAME/int4, int8                 `dunlin quantize`, groups of 32, rounded to nearest; Llama models alone
  WORK/NAME/int4-gptq, int4-no-order   the same with --calibration TEXT, and with --no-act-order
  WORK/NAME/*.gguf                     BF16, Q8_0 and Q4_0 by the package gguf, Q4_K_M by llama.cpp

A model is a directory in BF16 of a GPT-2 or a Llama, or a GGUF file of a Llama, of which transformers makes WORK/NAME/hf in
BF16 first. Perplexities are those of TEXT_FILE in tokens of the model. What is there already is not made again.

Needs numpy, gguf and llama-cpp-python; torch and transformers for a GGUF file.
Usage: quantised_models.py --build DIR --work DIR --calibration FILE [--text FILE] NAME=MODEL...
"""

import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE / "peers"))
WIDE = ("fp32", "bf16", "fp16", "fp8", "int8", "int4")
# Folder -> arguments of `dunlin quantize` beyond --out; {text} is the calibration text.
QUANTISED = {"int8": "--to int8", "int4": "--to int4", "int4-gptq": "--to int4 --calibration {text}",
             "int4-no-order": "--to int4 --calibration {text} --no-act-order"}
GGUF_FILES = ("Q8_0", "Q4_0", "Q4_K_M")


def directory_of(model, folder):
    """MODEL itself, or the directory made of its GGUF file."""
    if model.is_dir():
        return model
    made = folder / "hf"
    if (made / "tokenizer.json").exists():
        return made
    import torch
    import transformers

    where = {"pretrained_model_name_or_path": model.parent, "gguf_file": model.name}
    wide = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    wide.hf_quantizer = None  # the weights are plain floats now
    del wide.config.quantization_config
    wide.to(torch.bfloat16).save_pretrained(made)
    transformers.AutoTokenizer.from_pretrained(**where).save_pretrained(made)
    return made


def config_of(directory):
    """With the fields that peers/weights.py reads."""
    config = json.loads((directory / "config.json").read_text())
    if config["model_type"] == "llama":
        config.setdefault("head_dim", config["hidden_size"] // config["num_attention_heads"])
        config.setdefault("rope_theta", (config.get("rope_parameters") or {}).get("rope_theta"))
    return config


def make_gguf_files(directory, folder):
    import weights

    config, checkpoint = config_of(directory), weights.Checkpoint(directory / "model.safetensors")
    for name in ("BF16", *GGUF_FILES):
        file = folder / f"{name}.gguf"
        if file.exists():
            continue
        if name in weights.MIXTURES:
            weights.make_mixture(file, folder / "BF16.gguf")
        else:
            weights.make_gguf(file, config, checkpoint, name)


def make_quantised(dunlin, directory, folder, text):
    for name, arguments in QUANTISED.items():
        if (folder / name / "config.json").exists():
            continue
        command = [dunlin, "quantize", directory, "--out", folder / name, "--max-tokens", "16384",
                   *(word.format(text=text) for word in arguments.split())]
        made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        print(folder.name, name, made.stdout.strip(), flush=True)


def own_precision(dunlin, file):
    """Of a file's own codes: a Q4_K_M file is mostly Q5_0 where rows are no multiple of 256."""
    found = subprocess.run([dunlin, "inspect", "--json", file], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(found.stdout)["checkpoint_quantization"]["precision"]


def measure(build, text, directory, folder, is_llama):
    """[(what, precision, perplexity)], the first of them exact."""
    dunlin, table = build / "dunlin", build / "tests/precision_table"
    subjects = [(directory, WIDE)]
    if is_llama:
        subjects += [(folder / name, ("bf16",)) for name in QUANTISED]
    files = [folder / f"{name}.gguf" for name in GGUF_FILES]
    subjects += [(file, (own_precision(dunlin, file),)) for file in files]
    command = [table, "text", text, directory, *(f"{path}={','.join(names)}" for path, names in subjects)]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return rows_of(lines, directory)


def rows_of(lines, directory):
    """What precision_table printed, by the name of the file where it is not the model itself."""
    rows = []
    for line in lines:
        path, precision, value = line.split("\t")
        path = pathlib.Path(path)
        rows.append(("" if path == directory else path.name, precision, float(value)))
    return rows


def markdown(measured):
    """One row for each file and precision, a column of perplexities for each model, against its first row."""
    keys = []
    for rows in measured.values():
        keys += [key for key in (row[:2] for row in rows) if key not in keys]
    lines = ["| file | precision | " + " | ".join(measured) + " |", "|---" * (2 + len(measured)) + "|"]
    for key in keys:
        cells = []
        for rows in measured.values():
            value = next((row[2] for row in rows if row[:2] == key), None)
            cells.append("" if value is None else f"{value:.3f} ({100 * (value / rows[0][2] - 1):+.2f}%)")
        lines.append(f"| {key[0]} | {key[1]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--build", type=pathlib.Path, required=True)
    arguments.add_argument("--work", type=pathlib.Path, required=True)
    arguments.add_argument("--calibration", type=pathlib.Path, required=True)
    arguments.add_argument("--text", type=pathlib.Path, default=ROOT / "tests/golden/models/demo_heldout.txt")
    arguments.add_argument("models", nargs="+")
    args = arguments.parse_args()
    measured = {}
    for model in args.models:
        name, _, path = model.partition("=")
        folder = args.work / name
        folder.mkdir(parents=True, exist_ok=True)
        directory = directory_of(pathlib.Path(path), folder)
        is_llama = config_of(directory)["model_type"] == "llama"
        make_gguf_files(directory, folder)
        if is_llama:  # GPT-2's matrices have no layout in the format
            make_quantised(args.build / "dunlin", directory, folder, args.calibration)
        measured[name] = measure(args.build, args.text, directory, folder, is_llama)
        print(markdown(measured), flush=True)


if __name__ == "__main__":
    main()
