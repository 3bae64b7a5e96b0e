# SPDX-License-Identifier: Apache-2.0
"""Compares models of random shapes with transformers: the families of random_shapes.py.

Draws configs and weights, writes each as a checkpoint with goldens.json (logits alone) to a temporary folder, and runs
the golden tests of a build over them: logits in FP32 within 1e-4 by every CPU variant and attention backend, whole and in
chunks. Numbers of heads, their sizes, taps, widths, experts and the layers that attend are drawn; a draw whose logits in
float32 and float64 are far apart, or that has a choice of experts or keys near a tie, is drawn anew. Prints the shapes; ends
with the status of the tests, or 1 or more where a family has no such draw.

Usage: check_random_shapes.py BUILD [SEED [COUNT [FAMILY...]]]
BUILD: a build folder with tests/device_models_test; COUNT of each FAMILY, or of all of them.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers

import make_family_goldens as family
import make_goldens
from random_shapes import SHAPES

MAX_DRAWS = 40


def compare(model, exact, tokens, gaps):
    """The prompt's golden, and whether the draw is one that rounding does not change."""
    with family.Choices() as choices:
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
    reference = exact(torch.tensor([tokens]), use_cache=False).logits[0]
    error = (logits.double() - reference).abs().max().item()
    rows = [{"position": p, "values": make_goldens.rounded(logits[p].tolist())} for p in make_goldens.PROMPTS[len(tokens)]]
    steady = family.is_steady(model.config, [(None, error)], [choices.margin], gaps)
    return ({"tokens": tokens, "logits": rows, "greedy_tokens": [], "greedy_gaps": []},
            steady and error <= 0.3 * make_goldens.MAX_REFERENCE_ERROR)


def make(name, shape, rng, root):
    """Whether a draw was far from ties."""
    folder = root / name
    for _ in range(MAX_DRAWS):
        model_type, fields = SHAPES[shape](rng)
        seed = rng.randrange(1 << 30)
        model = family.build(model_type, fields)
        family.draw(model, seed)
        family.save(model, folder, published=False)
        loaded, exact = (family.load(folder, dtype).eval() for dtype in (torch.float32, torch.float64))
        gaps = family.watch_routers(loaded) if family.is_recurrent(loaded.config) else []
        results = []
        for tokens in make_goldens.draw_prompts(family.VOCAB, seed):
            results.append(compare(loaded, exact, tokens, gaps))
            if not results[-1][1]:
                break
        if results[-1][1]:
            break
    else:
        shutil.rmtree(folder)
        print(f"{name}: no draw of {MAX_DRAWS} is far from ties", flush=True)
        return False
    goldens = {"source": f"transformers {transformers.__version__}; seed {seed}", "weights_dtype": "bfloat16",
               "vocab_size": family.VOCAB, "prompts": [golden for golden, _ in results]}
    (folder / "goldens.json").write_text(json.dumps(goldens))
    print(f"{name}: {model_type} {fields}", flush=True)
    return True


@torch.no_grad()
def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as root:
        missing = set(sys.argv[4:] or SHAPES)
        for i in range(int(sys.argv[3]) if len(sys.argv) > 3 else 3):
            for shape in sys.argv[4:] or SHAPES:
                if make(f"{shape}_{i}", shape, rng, pathlib.Path(root)):
                    missing.discard(shape)
        tests = subprocess.run([build / "tests" / "device_models_test", "--gtest_filter=Models/GoldensLogits.*", "--gtest_brief=1"],
                               env={**os.environ, "DUNLIN_GOLDEN_MODELS": root}, check=False)
    if missing:
        print(f"no model of {', '.join(sorted(missing))}")
    sys.exit(tests.returncode or len(missing))


if __name__ == "__main__":
    main()
