# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of image encoders: tiny seeded multimodal checkpoints, the rows that their vision gives for images, and
the logits and greedy continuations of prompts with images.

Each row of MODELS becomes a folder beside this script with config.json, model.safetensors and goldens.json. Everything is
computed by `transformers` in float32, eager attention, from the files just written, and checked against float64.

goldens.json: source; images[]: rows and columns, its patches; pixels [3][rows * patch][columns * patch]; hidden
[rows * columns][hidden_size], rows of the vision model's last layer in the patches' order of rows and columns; values
[rows * columns / merge^2][text hidden_size], what takes the place of image tokens. prompts[]: images, indices of those that
its image tokens stand for, in their order; and what make_goldens.py says of prompts.

Usage: make_image_goldens.py [NAME...]     (package versions: models/training/requirements.txt)
"""

import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models"))

import make_goldens
from family_configs import COMMON, MINISTRAL3_ROPE, VOCAB

IMAGE, IMAGE_BREAK, IMAGE_END = 10, 12, 13  # as Mistral's tokenizers have them
MAX_ROW_ERROR = 5e-6  # of the largest value
# Name -> model_type, fields, first part of the names of tensors that the file has in place of another, and the patches of
# its images. The first is as published, the second as transformers 5 has it in memory.
MODELS = {
    # Three heads of 16: 4 frequencies by row and 4 by column.
    "mistral3_vision": ("mistral3", {
        "text_config": {"model_type": "mistral", "head_dim": 12, "rms_norm_eps": 1e-3, "sliding_window": None},
        "vision_config": {"model_type": "pixtral", "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 2,
                          "num_attention_heads": 3, "patch_size": 4, "image_size": 48, "hidden_act": "silu"},
        "spatial_merge_size": 2}, {}, [(4, 6), (6, 2)]),
    # Two heads of 18: 5 frequencies by row and 4 by column. Merged by three, with biases in the projector.
    "ministral3_vision": ("mistral3", {
        "text_config": {"model_type": "ministral3", "head_dim": 12, "rope_parameters": MINISTRAL3_ROPE},
        "vision_config": {"model_type": "pixtral", "hidden_size": 36, "intermediate_size": 40, "num_hidden_layers": 3,
                          "num_attention_heads": 2, "patch_size": 3, "image_size": 40, "hidden_act": "gelu",
                          "rope_parameters": {"rope_type": "axial", "rope_theta": 300.0}},
        "multimodal_projector_bias": True, "projector_hidden_act": "silu", "spatial_merge_size": 3},
        {"vision_tower.": "model.vision_tower.", "multi_modal_projector.": "model.multi_modal_projector.",
         "language_model.model.": "model.language_model.", "language_model.lm_head": "lm_head"}, [(3, 12), (12, 6)]),
}


def build(model_type, fields):
    text = {**COMMON, "tie_word_embeddings": False, **fields["text_config"]}
    config = transformers.AutoConfig.for_model(model_type, **{**fields, "text_config": text, "tie_word_embeddings": False,
                                                              "image_token_index": IMAGE})
    config._attn_implementation = "eager"
    return transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.float32).eval()


def draw(model, seed):
    """Wide enough that attention is peaked and logits far apart; rounded to BF16."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.named_parameters():
        noise = torch.randn(value.shape, generator=generator)
        if value.dim() == 1:
            noise = 0.2 * noise if name.endswith("bias") else 1.0 + 0.2 * noise
        else:
            wide = 2.2 if "embed" in name or "lm_head" in name else 1.6
            noise = wide / value[0].numel() ** 0.5 * noise
        value.copy_(noise.bfloat16())


def save(model, folder, renamed):
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        first = next((first for first in renamed if name.startswith(first)), "")
        tensors[renamed.get(first, "") + name.removeprefix(first)] = tensor
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def load(folder, dtype):
    return transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


def draw_images(config, grids, seed):
    """Pixels of each image, [3, height, width], with 3 digits."""
    generator = torch.Generator().manual_seed(seed + 1000)
    patch = config.vision_config.patch_size
    return [(torch.randn((3, rows * patch, columns * patch), generator=generator) * 1000).round() / 1000
            for rows, columns in grids]


def stack(images):
    """As the processor gives images of several sizes: padded, and their sizes."""
    height, width = (max(image.shape[i] for image in images) for i in (1, 2))
    padded = [torch.nn.functional.pad(image, (0, width - image.shape[2], 0, height - image.shape[1])) for image in images]
    return torch.stack(padded), torch.tensor([image.shape[1:] for image in images])


def rows_of(model, images):
    """Of each image the last layer's rows and the projector's."""
    pixels, sizes = stack(images)
    outputs = model.model.get_image_features(pixel_values=pixels.to(model.dtype), image_sizes=sizes, return_dict=True)
    patch = model.config.vision_config.patch_size
    counts = [(height // patch) * (width // patch) for height, width in sizes.tolist()]
    return list(zip(outputs.last_hidden_state[0].split(counts), outputs.pooler_output))


def image_tokens(grid, merge):
    rows, columns = grid[0] // merge, grid[1] // merge
    tokens = ([IMAGE] * columns + [IMAGE_BREAK]) * rows
    return tokens[:-1] + [IMAGE_END]


def draw_prompt(length, grids, merge, generator):
    """Text, then an image, then text and so on."""
    texts = [token for token in range(3, VOCAB) if token not in (IMAGE, IMAGE_BREAK, IMAGE_END)]
    text = [texts[i] for i in torch.randint(0, len(texts), (length,), generator=generator).tolist()]
    tokens = [COMMON["bos_token_id"]]
    for grid in grids:
        tokens += text[:3] + image_tokens(grid, merge)
        text = text[3:]
    assert len(tokens) < length
    return tokens + text[:length - len(tokens)]


def prompt_goldens(loaded, exact, images, grids, chosen, length, seed):
    def forward_of(model):
        pixels, sizes = stack([images[i] for i in chosen])

        def forward(tokens):
            return model(torch.tensor([tokens]), pixel_values=pixels.to(model.dtype), image_sizes=sizes,
                         use_cache=False).logits[0]
        return forward

    generator = torch.Generator().manual_seed(seed + length)
    tokens = draw_prompt(length, [grids[i] for i in chosen], loaded.config.spatial_merge_size, generator)
    golden, error = make_goldens.make_prompt_goldens(forward_of(loaded), forward_of(exact), tokens)
    return {"images": chosen, **golden}, error


def draw_goldens(name, seed):
    """The goldens and the largest errors of rows and of logits; none where a continuation tells nothing."""
    model_type, fields, renamed, grids = MODELS[name]
    model = build(model_type, fields)
    draw(model, seed)
    save(model, HERE / name, renamed)
    loaded, exact = load(HERE / name, torch.float32), load(HERE / name, torch.float64)
    images = draw_images(loaded.config, grids, seed)
    entries, row_error = [], 0.0
    for i, image in enumerate(images):
        alone, precise = rows_of(loaded, [image])[0], rows_of(exact, [image])[0]
        together = rows_of(loaded, images)[i]
        for values, others in [*zip(alone, precise), *zip(alone, together)]:
            row_error = max(row_error, ((values.double() - others).abs().max() / values.abs().max()).item())
        hidden, rows = (make_goldens.rounded(values.flatten().tolist()) for values in alone)
        entries.append({"rows": grids[i][0], "columns": grids[i][1],
                        "pixels": [round(value, 3) for value in image.flatten().tolist()], "hidden": hidden, "values": rows})
    prompts = []
    for chosen, length in (([0], 33), ([1, 0], 75)):
        try:
            prompts.append(prompt_goldens(loaded, exact, images, grids, chosen, length, seed))
        except ValueError:  # an image token was drawn
            return None
        if not make_goldens.is_telling([prompts[-1][0]]):
            return None
    source = (f"transformers {transformers.__version__}, float32, eager attention; torch "
              f"{torch.__version__.split('+')[0]}; seed {seed}")
    goldens = {"source": source, "images": entries, "prompts": [golden for golden, _ in prompts]}
    return goldens, row_error, max(error for _, error in prompts)


@torch.no_grad()
def make(name):
    for seed in range(100):
        drawn = draw_goldens(name, seed)
        if drawn is not None:
            break
    else:
        raise SystemExit(f"{name}: no seed gives telling continuations")
    goldens, row_error, logit_error = drawn
    (HERE / name / "goldens.json").write_text(json.dumps(goldens, separators=(",", ":")) + "\n")
    size = sum(file.stat().st_size for file in (HERE / name).iterdir())
    print(f"{name}: seed {seed}, float64 difference of rows {row_error:.1e}, of logits {logit_error:.1e}, {size} bytes",
          flush=True)
    if row_error > MAX_ROW_ERROR or logit_error > make_goldens.MAX_REFERENCE_ERROR:
        raise SystemExit(f"{name}: float32 and float64 differ")


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in sys.argv[1:] or MODELS:
        make(name)


if __name__ == "__main__":
    main()
