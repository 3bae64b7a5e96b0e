# SPDX-License-Identifier: Apache-2.0
"""Perplexity of the demo model under the FP8 recipe per_token, simulated in PyTorch: the oracle of perplexity_test.

Recipe: E4M3, scale = amax / 448; one scale for each row of a weight (output feature, embedding row) and for each row
of a GEMM input (token); everything else float32. The windows are one token shorter than the context, as the engine
needs one to generate; otherwise the procedure is that of demo_perplexity.json. `parts` says what each input and weight
costs on its own.

Usage: demo_fp8_reference.py     (package versions: models/training/requirements.txt; writes demo_fp8_perplexity.json)
"""

import json
import math
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
DEMO = HERE.parents[2] / "models" / "demo"
LINEARS = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")


def quantize(x, dim=-1):
    scale = x.abs().amax(dim, keepdim=True) / 448
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    return (x / scale).to(torch.float8_e4m3fn).float() * scale


def kind(name):
    return ".".join(name.split(".")[-2:])


@torch.no_grad()
def perplexity(model, windows, weights=(), inputs=(), embedding=False, head_weight=False, head_input=False):
    saved = {name: value.clone() for name, value in model.state_dict().items()}
    table = model.transformer.wte.weight.detach().clone()
    hooks = []
    for name, module in model.named_modules():
        if kind(name) in weights:
            module.weight.data = quantize(module.weight.data, 0)  # Conv1D: [in, out]
        if kind(name) in inputs:
            hooks.append(module.register_forward_pre_hook(lambda _, args: (quantize(args[0]),)))
    if embedding:
        hooks.append(model.transformer.wte.register_forward_hook(lambda _, args, out: quantize(table)[args[0]]))
    total, count = 0.0, 0
    for window in windows:
        hidden = model.transformer(window[None]).last_hidden_state[0]
        logits = (quantize(hidden) if head_input else hidden) @ (quantize(table) if head_weight else table).T
        scores = logits[:-1].log_softmax(-1).gather(1, window[1:, None])
        total -= scores.double().sum().item()
        count += len(window) - 1
    for hook in hooks:
        hook.remove()
    model.load_state_dict(saved)
    return math.exp(total / count)


def main():
    tokenizer = AutoTokenizer.from_pretrained(DEMO)
    model = AutoModelForCausalLM.from_pretrained(DEMO, dtype=torch.float32, attn_implementation="eager").eval()
    tokens = tokenizer.encode((HERE / "demo_heldout.txt").read_text(encoding="utf-8"), add_special_tokens=False)
    length = model.config.n_positions - 1
    windows = [torch.tensor(tokens[first:first + length]) for first in range(0, len(tokens), length)]
    every = {"weights": LINEARS, "inputs": LINEARS, "embedding": True, "head_weight": True, "head_input": True}
    exact = perplexity(model, windows)
    parts = {"weights": {"weights": LINEARS}, "embedding": {"embedding": True}, "head_weight": {"head_weight": True},
             "head_input": {"head_input": True}, **{f"input of {name}": {"inputs": (name,)} for name in LINEARS}}
    result = {"procedure": " ".join(__doc__.split("Usage:")[0].split()), "window_tokens": length,
              "fp32_perplexity": round(exact, 4), "fp8_perplexity": round(perplexity(model, windows, **every), 4),
              "parts": {name: round(perplexity(model, windows, **part), 4) for name, part in parts.items()}}
    (HERE / "demo_fp8_perplexity.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
