# SPDX-License-Identifier: Apache-2.0
"""Trains the demo model on the CPU: GPT-2 architecture, bf16 autocast, packed documents.

Warm-up, stable, decay on the wall clock: the learning rate is constant after the warm-up and falls
linearly to zero over the last DECAY_FRACTION of --max-minutes. The stable phase trains on short
windows, half of them at random position offsets (attention is the slow part on a CPU), the decay
phase on windows of the whole context. A file STOP in --work starts the decay early; so does a held-out
loss that has not fallen for PATIENCE evaluations. Checkpoints and log.txt go to --work; --resume
continues.

The machine may be busy with other work: each step runs on one or two threads, whichever has been faster
lately, because two threads wait for each other at every loop when one core is taken.

Usage: train.py --work DIR --max-minutes N [--resume]
"""

import argparse
import math
import pathlib
import time

import numpy as np
import torch
import torch._inductor.config as inductor_config
import torch.nn.functional as functional
from torch import nn

VOCAB, HIDDEN, LAYERS, HEADS, CONTEXT = 4096, 192, 6, 3, 1024
SHORT_WINDOW = 256
TOKENS_PER_STEP = 4096
WARMUP_STEPS = 100
MATRIX_RATE, OTHER_RATE = 2e-3, 2e-3
DECAY_FRACTION = 0.25
EVALUATE_MINUTES, CHECKPOINT_MINUTES, PATIENCE = 3, 4, 8
SEED = 1


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.c_attn(x).view(batch, length, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(out.transpose(1, 2).reshape(batch, length, HIDDEN))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(HIDDEN), Attention(), nn.LayerNorm(HIDDEN), Mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """Names follow Hugging Face's GPT2LMHeadModel; export.py transposes the linear weights."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(CONTEXT, HIDDEN)
        self.h, self.ln_f = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(HIDDEN)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                std = 0.02 / math.sqrt(2 * LAYERS) if name.endswith("c_proj.weight") else 0.02
                nn.init.normal_(p, std=std)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids, positions, targets):
        x = self.wte(ids) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        logits = functional.linear(self.ln_f(x), self.wte.weight)
        return functional.cross_entropy(logits.view(-1, VOCAB).float(), targets.reshape(-1))


def make_optimizers(model):
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and n.startswith("h.")]
    embeddings = [model.wte.weight, model.wpe.weight]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    adamw = torch.optim.AdamW([{"params": embeddings, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}],
                              lr=OTHER_RATE, betas=(0.9, 0.97), eps=1e-10, fused=True)
    muon = torch.optim.Muon(matrices, lr=MATRIX_RATE, weight_decay=0.05, momentum=0.95,
                            adjust_lr_fn="match_rms_adamw")
    return [adamw, muon]


class ThreadChoice:
    """Seconds per step by thread count, smoothed; the slower count is tried again now and then."""

    PROBE_EVERY = 24

    def __init__(self):
        self.seconds, self.steps = {1: None, 2: None}, 0

    def next_count(self):
        self.steps += 1
        untried = [n for n, s in self.seconds.items() if s is None]
        best = untried[0] if untried else min(self.seconds, key=self.seconds.get)
        return 3 - best if not untried and self.steps % self.PROBE_EVERY == 0 else best

    def record(self, count, seconds):
        old = self.seconds[count]
        self.seconds[count] = seconds if old is None else 0.6 * old + 0.4 * seconds


def draw(tokens, window, generator):
    rows = TOKENS_PER_STEP // window
    starts = generator.integers(0, len(tokens) - window - 1, rows)
    text = torch.from_numpy(np.stack([tokens[s:s + window + 1] for s in starts]).astype(np.int64))
    offsets = torch.from_numpy(generator.integers(0, CONTEXT - window + 1, (rows, 1)))
    offsets[::2] = 0
    return text[:, :-1], offsets + torch.arange(window), text[:, 1:]


@torch.no_grad()
def evaluate(model, tokens, window):
    """Mean held-out loss over the same evenly spaced windows every time."""
    losses = []
    for first in np.linspace(0, len(tokens) - 8 * window - 2, 6, dtype=np.int64):
        text = torch.from_numpy(tokens[first:first + 8 * window + 1].astype(np.int64))
        with torch.autocast("cpu", torch.bfloat16):
            losses.append(model(text[:-1].view(8, window), torch.arange(window).expand(8, -1),
                                text[1:].view(8, window)).item())
    return sum(losses) / len(losses)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--work", type=pathlib.Path, required=True)
    arguments.add_argument("--max-minutes", type=float, required=True)
    arguments.add_argument("--resume", action="store_true")
    args = arguments.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(SEED)
    generator = np.random.default_rng(SEED)
    train = np.fromfile(args.work / "train.bin", dtype=np.uint16)
    heldout = np.fromfile(args.work / "heldout.bin", dtype=np.uint16)
    model = Gpt2()
    optimizers = make_optimizers(model)
    step, seconds_before, best, stale, decay_from = 0, 0.0, math.inf, 0, None
    if args.resume:
        saved = torch.load(args.work / "checkpoint.pt")
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        step, seconds_before, decay_from = saved["step"], saved["seconds"], saved["decay_from"]
        generator = np.random.default_rng([SEED, step])
    # Compiled loops take their thread count at run time.
    inductor_config.cpp.dynamic_threads = True
    fast_model = torch.compile(model, dynamic=False)
    start, limit = time.monotonic() - seconds_before, 60 * args.max_minutes
    decay_seconds, end = DECAY_FRACTION * limit, limit
    next_evaluation, next_checkpoint = start + seconds_before + 60, start + seconds_before + 60 * CHECKPOINT_MINUTES
    running = None
    log = open(args.work / "log.txt", "a", buffering=1)

    def save():
        torch.save({"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "step": step,
                    "seconds": time.monotonic() - start, "decay_from": decay_from}, args.work / "checkpoint.tmp")
        (args.work / "checkpoint.tmp").rename(args.work / "checkpoint.pt")

    threads = ThreadChoice()
    while (elapsed := time.monotonic() - start) < end:
        early = stale >= PATIENCE or (args.work / "STOP").exists()
        if decay_from is None and (early or elapsed > limit - decay_seconds):
            decay_from = elapsed
        end = limit if decay_from is None else min(limit, decay_from + decay_seconds)
        scale = min(1.0, (step + 1) / WARMUP_STEPS)
        if decay_from is not None:
            scale = max(0.0, 1 - (elapsed - decay_from) / (end - decay_from))
        for optimizer, rate in zip(optimizers, (OTHER_RATE, MATRIX_RATE)):
            for group in optimizer.param_groups:
                group["lr"] = rate * scale
        window = SHORT_WINDOW if decay_from is None else CONTEXT
        count = threads.next_count()
        torch.set_num_threads(count)
        step_start = time.monotonic()
        with torch.autocast("cpu", torch.bfloat16):
            loss = fast_model(*draw(train, window, generator))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        step += 1
        if step > 20:  # the first steps compile
            threads.record(count, time.monotonic() - step_start)
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        if step % 50 == 0:
            log.write(f"step {step} minutes {elapsed / 60:.1f} rate {scale:.3f} train {running:.4f} threads {threads.seconds}\n")
        now = time.monotonic()
        if now > next_evaluation:
            next_evaluation = now + 60 * EVALUATE_MINUTES
            value = evaluate(model, heldout, SHORT_WINDOW if decay_from is None else CONTEXT)
            stale = 0 if value < best - 1e-3 else stale + 1
            best = min(best, value)
            log.write(f"step {step} minutes {elapsed / 60:.1f} tokens {step * TOKENS_PER_STEP} heldout {value:.4f}\n")
        if now > next_checkpoint:
            next_checkpoint = now + 60 * CHECKPOINT_MINUTES
            save()
    save()
    log.write(f"done step {step} tokens {step * TOKENS_PER_STEP} minutes {(time.monotonic() - start) / 60:.1f} "
              f"train {running:.4f} heldout {evaluate(model, heldout, CONTEXT):.4f}\n")


if __name__ == "__main__":
    main()
