# SPDX-License-Identifier: Apache-2.0
"""Trains the demo model on for FP8: every linear layer's weight and input, the embedding and the head are rounded as
the FP8 recipe per_token rounds them (E4M3 under a scale of amax / 448 for each row), and gradients pass straight
through the rounding. Starts from the weights in --model and writes --work/checkpoint.pt for export.py.

The weights it writes are themselves rounded, so that they lie on the E4M3 grid of their row: what FP8 still costs such a
model is the rounding of the GEMM inputs alone.

The learning rate warms up, then falls linearly to zero on the wall clock; windows are the whole context.

Usage: adapt_fp8.py --model MODEL_DIR --work DIR --max-minutes N [--rate R] [--input-bits 3] [--qkv-input-bits 2]
--rate is a fraction of train.py's learning rates. --input-bits rounds the GEMM inputs more coarsely than the recipe's 4
significant bits: a model that bears 3 loses little to 4. --qkv-input-bits does so for the inputs of c_attn, which are the
most sensitive.
"""

import argparse
import pathlib
import time

import numpy as np
import torch
import torch._inductor.config as inductor_config
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

import train

WARMUP_STEPS = 50
SIGNIFICANT_BITS = 4  # of E4M3: one implied, three stored


def rounded(x, bits=SIGNIFICANT_BITS):
    """x with each row rounded to E4M3 under its own scale; the gradient is that of x."""
    factor = float(2 ** (24 - bits) + 1)
    with torch.autocast("cpu", enabled=False):
        x = x.float()
        with torch.no_grad():
            scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 448
            value = x / scale
            split = value * factor  # Veltkamp's splitting rounds to nearest even
            change = (split - (split - value)) * scale - x
        return x + change


class Fp8Linear(nn.Linear):
    def forward(self, x):
        return functional.linear(rounded(x, self.input_bits), rounded(self.weight), self.bias)


class Fp8Gpt2(train.Gpt2):
    def __init__(self, input_bits, qkv_input_bits):
        super().__init__()
        self.input_bits = input_bits
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                module.__class__ = Fp8Linear
                module.input_bits = qkv_input_bits if name.endswith("c_attn") else input_bits

    def forward(self, ids, positions, targets):
        table = rounded(self.wte.weight)
        x = functional.embedding(ids, table) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        logits = functional.linear(rounded(self.ln_f(x), self.input_bits), table)
        return functional.cross_entropy(logits.view(-1, train.VOCAB).float(), targets.reshape(-1))

    @torch.no_grad()
    def round_weights(self):
        self.wte.weight.copy_(rounded(self.wte.weight))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight.copy_(rounded(module.weight))


def load_weights(path):
    """The names and orientation of train.Gpt2: the inverse of export.py."""
    state = {}
    for name, p in load_file(path / "model.safetensors").items():
        name = name.removeprefix("transformer.")
        state[name] = (p.t() if p.dim() == 2 and name.startswith("h.") else p).float().contiguous()
    return state


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--model", type=pathlib.Path, required=True)
    arguments.add_argument("--work", type=pathlib.Path, required=True)
    arguments.add_argument("--max-minutes", type=float, required=True)
    arguments.add_argument("--rate", type=float, default=0.5)
    arguments.add_argument("--input-bits", type=int, default=SIGNIFICANT_BITS)
    arguments.add_argument("--qkv-input-bits", type=int, default=SIGNIFICANT_BITS)
    args = arguments.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(train.SEED)
    generator = np.random.default_rng([train.SEED, 8])
    tokens = np.fromfile(args.work / "train.bin", dtype=np.uint16)
    heldout = np.fromfile(args.work / "heldout.bin", dtype=np.uint16)
    model = Fp8Gpt2(args.input_bits, args.qkv_input_bits)
    model.load_state_dict(load_weights(args.model))
    optimizers = train.make_optimizers(model)
    print(f"before: held-out loss in FP8 {train.evaluate(model, heldout, train.CONTEXT):.4f}", flush=True)
    inductor_config.cpp.dynamic_threads = True
    fast_model = torch.compile(model, dynamic=False)
    threads = train.ThreadChoice()
    start, steps, limit, running = None, 0, 60 * args.max_minutes, None
    while start is None or time.monotonic() - start < limit:
        elapsed = 0.0 if start is None else time.monotonic() - start
        scale = args.rate * min(1.0, (steps + 1) / WARMUP_STEPS) * max(0.0, 1 - elapsed / limit)
        for optimizer, rate in zip(optimizers, (train.OTHER_RATE, train.MATRIX_RATE)):
            for group in optimizer.param_groups:
                group["lr"] = rate * scale
        count = threads.next_count()
        torch.set_num_threads(count)
        step_start = time.monotonic()
        with torch.autocast("cpu", torch.bfloat16):
            loss = fast_model(*train.draw(tokens, train.CONTEXT, generator))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        steps += 1
        start = start or time.monotonic()  # the first step compiles
        if steps > 20:
            threads.record(count, time.monotonic() - step_start)
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        if steps % 50 == 0:
            print(f"step {steps} minutes {elapsed / 60:.1f} train {running:.4f} threads {threads.seconds}", flush=True)
        if steps % 500 == 0:
            print(f"held-out loss in FP8 {train.evaluate(model, heldout, train.CONTEXT):.4f}", flush=True)
    model.round_weights()
    torch.save({"model": model.state_dict(), "step": steps}, args.work / "checkpoint.pt")
    print(f"after {steps} steps: train {running:.4f} held-out loss in FP8 "
          f"{train.evaluate(model, heldout, train.CONTEXT):.4f}")


if __name__ == "__main__":
    main()
