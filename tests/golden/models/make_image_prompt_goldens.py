# SPDX-License-Identifier: Apache-2.0
"""Makes image_prompts.json: prompts with images, over the tiny checkpoints beside this script whose rotations have sections. The text
models get random rows in place of embeddings where images are, and the positions that transformers' get_rope_index gives.

image_prompts.json: source; prompts[]: model; tokens, -1 in images; images, [first, rows, columns] of each after merging; rows, the
values of all images' rows times 64; positions, of the prompt and the first tokens after it, by sequence, row and column; logits,
greedy_tokens and greedy_gaps as make_goldens.py has them. plans[]: images and positions of longer prompts, without a model.
In float32, with rows and weights upcast; the logits are checked against float64. Positions by index give other logits.

Usage: make_image_prompt_goldens.py     (package versions: models/training/requirements.txt)
"""

import json
import pathlib
import random
import types

import torch
import transformers
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5Model
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

import make_goldens
import make_family_goldens

HERE = pathlib.Path(__file__).resolve().parent
MODELS = {"qwen25_vl_tiny": Qwen2_5_VLModel, "qwen3_vl_tiny": Qwen3VLModel, "qwen35_tiny": Qwen3_5Model}
# Numbers of text tokens, and rows and columns of images between them.
PROMPTS = [[5, (3, 4), 6, (2, 5), 7], [(4, 3), 9], [6, (5, 3)], [30, (6, 7), 2, (1, 4), 3]]
MERGE = 2
AFTER = 3
MIN_GAP = 2e-3
MIN_EFFECT = 0.05  # of the positions, on a logit


def images_of(segments):
    images, length = [], 0
    for segment in segments:
        if isinstance(segment, tuple):
            images.append([length, *segment])
            length += segment[0] * segment[1]
        else:
            length += segment
    return images, length


def positions_of(model_class, images, length):
    """[3, length] of get_rope_index, which reads of the model its config alone."""
    config = types.SimpleNamespace(vision_config=types.SimpleNamespace(spatial_merge_size=MERGE, tokens_per_second=2))
    owner = types.SimpleNamespace(config=config)
    owner.get_vision_position_ids = types.MethodType(model_class.get_vision_position_ids, owner)
    kinds = torch.zeros(1, length, dtype=torch.int)
    for first, rows, columns in images:
        kinds[0, first:first + rows * columns] = 1
    grids = torch.tensor([[1, MERGE * rows, MERGE * columns] for _, rows, columns in images])
    ids = torch.zeros(1, length, dtype=torch.long)
    return model_class.get_rope_index(owner, ids, kinds, image_grid_thw=grids)[0][:, 0]


class TextModel:
    def __init__(self, name, dtype):
        whole = make_family_goldens.load(HERE / name, dtype).eval()
        self.layers = getattr(whole.model, "language_model", whole.model)
        self.head = whole.lm_head
        self.embedding = whole.get_input_embeddings()
        self.dtype = dtype

    def logits(self, tokens, images, rows, positions):
        inputs = self.embedding(torch.tensor([tokens]).clamp(min=0))
        row = 0
        for first, height, width in images:
            inputs[0, first:first + height * width] = rows[row:row + height * width].to(self.dtype) / 64
            row += height * width
        hidden = self.layers(inputs_embeds=inputs, position_ids=positions[:, None], use_cache=False).last_hidden_state
        return self.head(hidden)[0]


def make(name, segments, models, seed):
    """None where a step of the continuation is near a tie, or it only repeats itself."""
    images, length = images_of(segments)
    rng = random.Random(seed)
    tokens = [rng.randrange(3, make_family_goldens.VOCAB) for _ in range(length)]
    for first, height, width in images:
        tokens[first:first + height * width] = [-1] * (height * width)
    num_rows = sum(height * width for _, height, width in images)
    width = models[0].embedding.weight.shape[1]
    rows = (0.4 * 64 * torch.randn(num_rows, width, generator=torch.Generator().manual_seed(seed))).round()
    positions = positions_of(MODELS[name], images, length + make_goldens.GREEDY_STEPS)

    logits = models[0].logits(tokens, images, rows, positions[:, :length])
    error = (models[1].logits(tokens, images, rows, positions[:, :length]) - logits).abs().max().item()
    by_index = torch.arange(length).expand(3, -1)
    effect = (models[0].logits(tokens, images, rows, by_index) - logits)[-1].abs().max().item()
    known, gaps = list(tokens), []
    for _ in range(make_goldens.GREEDY_STEPS):
        best = models[0].logits(known, images, rows, positions[:, :len(known)])[-1].topk(2)
        gaps.append((best.values[0] - best.values[1]).item())
        known.append(best.indices[0].item())
        if gaps[-1] < MIN_GAP:
            return None
    if error > 0.6 * make_goldens.MAX_REFERENCE_ERROR or effect < MIN_EFFECT or len(set(known[length:])) < 8:
        return None
    stored = sorted({0, images[0][0], images[-1][0] + 1, length - 1})
    print(f"{name}, {length} tokens: seed {seed}, float64 difference {error:.1e}, effect of the positions {effect:.2f}", flush=True)
    return {"model": name, "tokens": tokens, "images": images, "rows": rows.int().flatten().tolist(),
            "positions": positions[:, :length + AFTER].tolist(),
            "logits": [{"position": p, "values": make_goldens.rounded(logits[p].tolist())} for p in stored],
            "greedy_tokens": known[length:], "greedy_gaps": make_goldens.rounded(gaps)}


def plan(rng, model_class):
    segments = [] if rng.random() < 0.5 else [rng.randint(1, 9)]
    for _ in range(rng.randint(1, 5)):
        segments += [(rng.randint(1, 9), rng.randint(1, 9)), rng.randint(1, 9)]
    images, length = images_of(segments)
    return {"images": images, "positions": positions_of(model_class, images, length).tolist()}


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    prompts = []
    for name in MODELS:
        models = [TextModel(name, dtype) for dtype in (torch.float32, torch.float64)]
        for segments in PROMPTS:
            made = (make(name, segments, models, seed) for seed in range(100))
            prompts.append(next(golden for golden in made if golden is not None))
    rng = random.Random(0)
    plans = [plan(rng, model_class) for model_class in MODELS.values() for _ in range(8)]
    source = f"transformers {transformers.__version__}, float32, eager attention; torch {torch.__version__.split('+')[0]}"
    lists = [",\n".join(json.dumps(item, separators=(",", ":")) for item in items) for items in (prompts, plans)]
    (HERE / "image_prompts.json").write_text(
        f'{{"source":{json.dumps(source)},"prompts":[\n{lists[0]}\n],"plans":[\n{lists[1]}\n]}}\n')


if __name__ == "__main__":
    main()
