# SPDX-License-Identifier: Apache-2.0
"""Held-out perplexity of the exported demo model with transformers in float32, and samples.

Procedure: the whole text file is tokenised as one string, without special tokens; the tokens are cut
into windows of n_positions that do not overlap, the last one shorter; each window starts at position
0 with an empty cache and its first token is not scored; perplexity is exp of the mean negative log
likelihood (natural logarithm) over all scored tokens. Weights are bf16 upcast to float32.

Usage: evaluate.py --model MODEL_DIR --golden GOLDEN_DIR [--select WORK_DIR] [--samples]
--select first rewrites demo_heldout.txt from whole documents of WORK_DIR: heldout.jsonl, and pages of
dialogues_heldout.jsonl.
"""

import argparse
import json
import math
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

SELECTED_CHARS = {"r-cran-janeaustenr": 9000, "sword-text-kjv": 9000, "dict-jargon": 4000}
SELECTED_PAGES = 20  # of those of make_dialogues.py
PROMPTS = ["The dunlin is", "The ships of Wrenmouth.", "And the king said unto him,", "It was a fine morning in the"]


def select_heldout(work):
    """Whole documents, in file order, until each package's share is reached, then generated pages."""
    rows = [json.loads(line) for line in open(work / "heldout.jsonl", encoding="utf-8")]
    left, chosen = dict(SELECTED_CHARS), []
    for row in rows:
        if left.get(row["package"], 0) > 0 and len(row["text"]) < 1.5 * SELECTED_CHARS[row["package"]]:
            left[row["package"]] -= len(row["text"])
            chosen.append(row["text"])
    texts = [json.loads(line)["text"] for line in open(work / "dialogues_heldout.jsonl", encoding="utf-8")]
    pages = [text for text in texts if not text.startswith("<|im_start|>")]
    return "\n\n".join(chosen + pages[:SELECTED_PAGES]) + "\n"


@torch.no_grad()
def measure(model, tokens):
    window, windows = model.config.n_positions, []
    for first in range(0, len(tokens), window):
        ids = torch.tensor(tokens[first:first + window])
        if len(ids) > 1:
            scores = model(ids[None], use_cache=False).logits[0, :-1].log_softmax(-1)
            windows.append((len(ids) - 1, -scores.gather(1, ids[1:, None]).double().sum().item()))
    scored, total = sum(w[0] for w in windows), sum(w[1] for w in windows)
    return {"num_tokens": len(tokens), "window_tokens": window, "scored_tokens": scored,
            "mean_negative_log_likelihood": round(total / scored, 6), "perplexity": round(math.exp(total / scored), 4),
            "window_negative_log_likelihoods": [round(w[1], 4) for w in windows]}


def print_samples(model, tokenizer):
    for prompt in PROMPTS:
        set_seed(1)
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        for name, options in (("greedy", {"do_sample": False}), ("sampled", {})):
            out = model.generate(ids, max_new_tokens=60, **options)
            print(f"[{name}] {tokenizer.decode(out[0])!r}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--model", type=pathlib.Path, required=True)
    arguments.add_argument("--golden", type=pathlib.Path, required=True)
    arguments.add_argument("--select", type=pathlib.Path)
    arguments.add_argument("--samples", action="store_true")
    args = arguments.parse_args()
    heldout = args.golden / "demo_heldout.txt"
    if args.select:
        heldout.write_text(select_heldout(args.select), encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32, attn_implementation="eager").eval()
    text = heldout.read_text(encoding="utf-8")
    result = {"file": heldout.name, "procedure": " ".join(__doc__.split("Usage:")[0].split("Procedure: ")[1].split()),
              "num_bytes": len(text.encode()), **measure(model, tokenizer.encode(text, add_special_tokens=False))}
    (args.golden / "demo_perplexity.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    if args.samples:
        print_samples(model, tokenizer)


if __name__ == "__main__":
    main()
