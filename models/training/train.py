# SPDX-License-Identifier: Apache-2.0
"""Trains the demo model on the CPU: GPT-2 architecture, bf16 autocast, packed texts, a fixed number of steps.

The learning rate warms up, stays, and falls linearly to zero over the last --decay-steps. Until then windows
are SHORT_WINDOW tokens long (attention is the slow part on a CPU), then the whole context, and every linear layer's weight
and input, the embedding and the head are rounded as the FP8 recipe per_token rounds them (E4M3 under a scale of amax / 448
for each row; inputs to INPUT_BITS significant bits, coarser than E4M3's 4, so that the model bears E4M3 well). Gradients
pass straight through the rounding. The weights that are written lie on the grid of their row.

A window of chats begins where a chat begins; chats come in file order, prose windows at random. Tokens outside the
assistant's part of a chat count OTHER_WEIGHT in the loss, those of prose PROSE_WEIGHT. Some windows sit at random positions.

Two threads, fixed seeds and no clock in any decision: the same bytes on the same kind of CPU. log.txt and checkpoint.pt go
to --work; --resume goes on from checkpoint.pt as if the run had not stopped, perhaps towards another number of steps, which
may be chosen anew as long as the decay has not begun.

Usage: train.py --work DIR [--steps 1450] [--decay-steps 250] [--resume]
"""

import argparse
import math
import os
import pathlib
import resource
import time

# Threads that wait must not spin: on a busy machine that takes the time of the thread they wait for.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
import numpy as np
import torch
import torch.nn.functional as functional
from torch import nn

VOCAB, HIDDEN, LAYERS, HEADS, CONTEXT = 4096, 192, 6, 3, 1024
SHORT_WINDOW = 512
ROWS_PER_STEP = 4
DRILL_FROM_STEP, DRILL_SEGMENTS, PROSE_EVERY = 600, 6, 3
PROSE_WEIGHT, OTHER_WEIGHT = 0.5, 0.15
WARMUP_STEPS = 60
MATRIX_RATE, OTHER_RATE = 3e-3, 3e-3
CHECKPOINT_STEPS = 50
INPUT_BITS, WEIGHT_BITS = 3, 4
SEED = 1


def rounded(x, bits):
    """x with each row rounded to the given significant bits under its own scale of E4M3; the gradient is that of x."""
    factor = float(2 ** (24 - bits) + 1)
    with torch.autocast("cpu", enabled=False):
        x = x.float()
        with torch.no_grad():
            scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 448
            value = x / scale
            split = value * factor  # Veltkamp's splitting rounds to nearest even
            change = (split - (split - value)) * scale - x
        return x + change


class Linear(nn.Linear):
    fp8 = False

    def forward(self, x):
        if not self.fp8:
            return super().forward(x)
        return functional.linear(rounded(x, INPUT_BITS), rounded(self.weight, WEIGHT_BITS), self.bias)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = Linear(HIDDEN, 3 * HIDDEN), Linear(HIDDEN, HIDDEN)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.c_attn(x).view(batch, length, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(out.transpose(1, 2).reshape(batch, length, HIDDEN))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj = Linear(HIDDEN, 4 * HIDDEN), Linear(4 * HIDDEN, HIDDEN)

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
        self.fp8 = False
        self.wte, self.wpe = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(CONTEXT, HIDDEN)
        self.h, self.ln_f = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(HIDDEN)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                std = 0.02 / math.sqrt(2 * LAYERS) if name.endswith("c_proj.weight") else 0.02
                nn.init.normal_(p, std=std)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids, positions, targets, weights):
        table = rounded(self.wte.weight, WEIGHT_BITS) if self.fp8 else self.wte.weight
        x = functional.embedding(ids, table) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        logits = functional.linear(rounded(x, INPUT_BITS) if self.fp8 else x, table)
        losses = functional.cross_entropy(logits.view(-1, VOCAB).float(), targets.reshape(-1), reduction="none")
        return (losses * weights.reshape(-1)).sum() / weights.sum()

    def use_fp8(self):
        self.fp8 = True
        for module in self.modules():
            if isinstance(module, Linear):
                module.fp8 = True

    @torch.no_grad()
    def round_weights(self):
        self.wte.weight.copy_(rounded(self.wte.weight, WEIGHT_BITS))
        for module in self.modules():
            if isinstance(module, Linear):
                module.weight.copy_(rounded(module.weight, WEIGHT_BITS))


def make_optimizers(model):
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and n.startswith("h.")]
    embeddings = [model.wte.weight, model.wpe.weight]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    adamw = torch.optim.AdamW([{"params": embeddings, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}],
                              lr=OTHER_RATE, betas=(0.9, 0.97), eps=1e-10, fused=True)
    muon = torch.optim.Muon(matrices, lr=MATRIX_RATE, weight_decay=0.05, momentum=0.95,
                            adjust_lr_fn="match_rms_adamw")
    return [adamw, muon]


class Texts:
    """Token files of one kind, with the loss weight of each token."""

    def __init__(self, work, name):
        self.tokens = np.fromfile(work / (name + ".bin"), dtype=np.uint16).astype(np.int64)
        learned = np.fromfile(work / (name + ".weight.bin"), dtype=np.uint8)
        self.weights = np.where(learned, 1.0, OTHER_WEIGHT).astype(np.float32)
        self.starts = np.concatenate([[0], np.flatnonzero(self.tokens == 0) + 1])
        self.next = 0

    def in_order(self, window):
        """The first token of the next window: where the first text begins that the last window did not hold in full."""
        first = self.starts[self.next]
        if first + window + 1 >= len(self.tokens):
            self.next, first = 0, 0
        after = int(np.searchsorted(self.starts, first + window, side="right")) - 1
        self.next = max(after, self.next + 1)
        return first

    def rows(self, firsts, window):
        tokens = np.stack([self.tokens[f:f + window + 1] for f in firsts])
        return tokens, np.stack([self.weights[f + 1:f + window + 1] for f in firsts])


def copy_drill(window, generator):
    """A row of a few segments of random tokens again and again in random order: what has occurred is to be copied."""
    segments = [generator.integers(0, VOCAB, generator.integers(4, 24)) for _ in range(DRILL_SEGMENTS)]
    tokens, weights, seen = [], [], set()
    while len(tokens) < window + 1:
        which = int(generator.integers(0, DRILL_SEGMENTS))
        tokens += segments[which].tolist()
        weights += [0.0] + [float(which in seen)] * (len(segments[which]) - 1)
        seen.add(which)
    return np.array([tokens[:window + 1]]), np.array([weights[1:window + 1]], dtype=np.float32)


def draw(chats, prose, window, step, generator):
    """The first row is prose or a copy drill, the others are chats."""
    if step < DRILL_FROM_STEP or step % PROSE_EVERY == 0:
        tokens, weights = prose.rows([generator.integers(0, len(prose.tokens) - window - 1)], window)
        weights = PROSE_WEIGHT * weights
    else:
        tokens, weights = copy_drill(window, generator)
    chat_tokens, chat_weights = chats.rows([chats.in_order(window) for _ in range(ROWS_PER_STEP - 1)], window)
    tokens = torch.from_numpy(np.concatenate([tokens, chat_tokens]))
    weights = torch.from_numpy(np.concatenate([weights, chat_weights]))
    offsets = torch.from_numpy(generator.integers(0, CONTEXT - window + 1, (ROWS_PER_STEP, 1)))
    offsets[2:] = 0
    return tokens[:, :-1], offsets + torch.arange(window), tokens[:, 1:], weights


@torch.no_grad()
def evaluate(model, texts, window, only_learned):
    """Mean loss over all whole windows of texts: of every token, or of the learned ones alone."""
    total, scored = 0.0, 0.0
    for first in range(0, len(texts.tokens) - window, window):
        tokens, weights = map(torch.from_numpy, texts.rows([first], window))
        weights = (weights == 1).float() if only_learned else torch.ones_like(weights)
        if weights.sum() > 0:
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(tokens[:, :-1], torch.arange(window)[None], tokens[:, 1:], weights).item()
            total, scored = total + loss * weights.sum().item(), scored + weights.sum().item()
    return total / scored


def held_out_losses(model, heldout):
    return (f"held-out prose {evaluate(model, heldout['prose'], CONTEXT, False):.4f} "
            f"chats {evaluate(model, heldout['dialogues'], CONTEXT, False):.4f} "
            f"answers {evaluate(model, heldout['dialogues'], CONTEXT, True):.4f}")


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--work", type=pathlib.Path, required=True)
    arguments.add_argument("--steps", type=int, default=1450)
    arguments.add_argument("--decay-steps", type=int, default=250)
    arguments.add_argument("--resume", action="store_true")
    args = arguments.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(SEED)
    generator = np.random.default_rng(SEED)
    chats, prose = Texts(args.work, "dialogues_train"), Texts(args.work, "prose_train")
    heldout = {name: Texts(args.work, name + "_heldout") for name in ("prose", "dialogues")}
    model = Gpt2()
    optimizers = make_optimizers(model)
    fast_model = torch.compile(model, dynamic=False)
    decay_from = args.steps - args.decay_steps
    first, cpu_before, running = 0, 0.0, None
    tokens = ROWS_PER_STEP * (SHORT_WINDOW * decay_from + CONTEXT * args.decay_steps)
    if args.resume:
        saved = torch.load(args.work / "checkpoint.pt", weights_only=False)
        first, cpu_before, running = saved["step"], saved["cpu_seconds"], saved["running"]
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        generator.bit_generator.state, chats.next = saved["generator"], saved["next_chat"]
    start = time.monotonic()
    log = open(args.work / "log.txt", "a", buffering=1)

    def save(step):
        torch.save({"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "step": step,
                    "generator": generator.bit_generator.state, "next_chat": chats.next, "running": running,
                    "cpu_seconds": cpu_before + cpu_seconds()}, args.work / "checkpoint.tmp")
        (args.work / "checkpoint.tmp").rename(args.work / "checkpoint.pt")

    for step in range(first, args.steps):
        if step == decay_from:
            log.write(f"step {step} {held_out_losses(model, heldout)}\n")
        if step >= decay_from:
            model.use_fp8()
        scale = min(1.0, (step + 1) / WARMUP_STEPS, (args.steps - step) / args.decay_steps)
        for optimizer, rate in zip(optimizers, (OTHER_RATE, MATRIX_RATE)):
            for group in optimizer.param_groups:
                group["lr"] = rate * scale
        window = SHORT_WINDOW if step < decay_from else CONTEXT
        with torch.autocast("cpu", torch.bfloat16):
            loss = fast_model(*draw(chats, prose, window, step, generator))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        if (step + 1) % 50 == 0:
            log.write(f"step {step + 1} minutes {(time.monotonic() - start) / 60:.1f} CPU minutes {(cpu_before + cpu_seconds()) / 60:.1f} "
                      f"rate {scale:.3f} train {running:.4f}\n")
        if (step + 1) % CHECKPOINT_STEPS == 0:
            save(step + 1)
    model.round_weights()
    save(args.steps)
    log.write(f"done: {args.steps} steps, {tokens} tokens, {(time.monotonic() - start) / 60:.1f} minutes, "
              f"{(cpu_before + cpu_seconds()) / 60:.1f} CPU minutes, train {running:.4f}, {held_out_losses(model, heldout)}\n")


if __name__ == "__main__":
    main()
