# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of image encoders: tiny seeded multimodal checkpoints, the rows that their vision gives for images, and
the logits and greedy continuations of prompts with images.

Each row of MODELS becomes a folder beside this script with config.json, model.safetensors and goldens.json. Everything is
computed by `transformers` in float32, eager attention, from the files just written, and checked against float64.

goldens.json: source; images[]: rows and columns, its patches; pixels [3][rows * patch][columns * patch]; hidden
[rows * columns][hidden_size], rows of the vision model's last layer in the patches' order of rows and columns; values
[rows * columns / merge^2][text hidden_size], what takes the place of image tokens. prompts[]: images, indices of those that
its image tokens stand for, in their order; and what make_goldens.py says of prompts; where positions have three dimensions,
positions [3][tokens], by time, row and column, and next_position, that of what follows in all three.

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
from family_configs import COMMON, DELTA, MINISTRAL3_ROPE, QWEN35_ROPE, VOCAB

# As Mistral's tokenizers have them. Of Qwen's the second stands before an image, and the others where they do.
IMAGE, IMAGE_BREAK, IMAGE_END = 10, 12, 13
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
    # Two heads of 20: 5 frequencies by row, as many by column. A table of 7 x 7 positions, between the images' grids in size.
    "qwen35_vision": ("qwen3_5", {
        "text_config": {**DELTA, "rope_parameters": QWEN35_ROPE},
        "vision_config": {"hidden_size": 40, "intermediate_size": 56, "depth": 2, "num_heads": 2, "patch_size": 3,
                          "out_hidden_size": COMMON["hidden_size"], "num_position_embeddings": 49}}, {}, [(4, 6), (8, 10)]),
}


def build(model_type, fields):
    text = {**COMMON, "tie_word_embeddings": False, **fields["text_config"]}
    tokens = {"image_token_index": IMAGE}
    if model_type == "qwen3_5":
        tokens = {"image_token_id": IMAGE, "video_token_id": 11, "vision_start_token_id": IMAGE_BREAK,
                  "vision_end_token_id": IMAGE_END}
    config = transformers.AutoConfig.for_model(model_type, **{**fields, "text_config": text, "tie_word_embeddings": False,
                                                              **tokens})
    config._attn_implementation = "eager"
    return transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.float32).eval()


def draw(model, seed):
    """Wide enough that attention is peaked and logits far apart; rounded to BF16."""
    generator = torch.Generator().manual_seed(seed)
    offset_norms = is_flat(model.config)  # but the gated ones: they are 1 + w
    for name, value in model.named_parameters():
        noise = torch.randn(value.shape, generator=generator)
        if name.endswith(".A_log"):
            noise = 1.2 * noise - 1.0  # states that fade within a few tokens, and ones that last for hundreds
        elif name.endswith(".dt_bias"):
            noise = 0.5 * noise - 0.5
        elif name.endswith((".in_proj_a.weight", ".in_proj_b.weight")):
            noise = 1.0 / value.shape[1] ** 0.5 * noise  # neither closed nor open: what is next to 0 is normalised
        elif offset_norms and "language_model" in name and name.endswith("norm.weight") and "linear_attn" not in name:
            noise = 0.2 * noise
        elif value.dim() == 1:
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


def in_blocks(config, grid):
    """Where the patches that become one row follow one another: of each its place in order of rows and columns."""
    merge = config.vision_config.spatial_merge_size
    places = torch.arange(grid[0] * grid[1]).reshape(grid[0] // merge, merge, grid[1] // merge, merge)
    return places.transpose(1, 2).flatten()


def flat(config, images):
    """As the processor of Qwen gives them: patches block by block, [channel, frame, y, x], of equal frames; and the grids."""
    vision, patches, grids = config.vision_config, [], []
    size, frames = vision.patch_size, vision.temporal_patch_size
    for image in images:
        rows, columns = (side // size for side in image.shape[1:])
        cut = image.reshape(3, rows, size, columns, size).permute(1, 3, 0, 2, 4).reshape(-1, 3, 1, size, size)
        patches.append(cut[in_blocks(config, (rows, columns))].expand(-1, -1, frames, -1, -1).flatten(1))
        grids.append([1, rows, columns])
    return torch.cat(patches), torch.tensor(grids)


def is_flat(config):
    return hasattr(config.vision_config, "temporal_patch_size")


def image_inputs(model, images):
    if is_flat(model.config):
        pixels, grids = flat(model.config, images)
        return {"pixel_values": pixels.to(model.dtype), "image_grid_thw": grids}
    pixels, sizes = stack(images)
    return {"pixel_values": pixels.to(model.dtype), "image_sizes": sizes}


def rows_of(model, images):
    """Of each image the last layer's rows, in the patches' order of rows and columns, and the projector's."""
    outputs = model.model.get_image_features(**image_inputs(model, images), return_dict=True)
    patch = model.config.vision_config.patch_size
    grids = [(image.shape[1] // patch, image.shape[2] // patch) for image in images]
    counts = [rows * columns for rows, columns in grids]
    if not is_flat(model.config):
        return list(zip(outputs.last_hidden_state[0].split(counts), outputs.pooler_output))
    hidden = [rows[in_blocks(model.config, grid).argsort()]
              for rows, grid in zip(outputs.last_hidden_state.split(counts), grids)]
    return list(zip(hidden, outputs.pooler_output))


def image_tokens(config, grid):
    if is_flat(config):
        return [IMAGE_BREAK] + [IMAGE] * (grid[0] * grid[1] // config.vision_config.spatial_merge_size ** 2) + [IMAGE_END]
    rows, columns = (side // config.spatial_merge_size for side in grid)
    tokens = ([IMAGE] * columns + [IMAGE_BREAK]) * rows
    return tokens[:-1] + [IMAGE_END]


def draw_prompt(length, grids, config, generator):
    """Text, then an image, then text and so on."""
    texts = [token for token in range(3, VOCAB) if token not in (IMAGE, IMAGE_BREAK, IMAGE_END)]
    text = [texts[i] for i in torch.randint(0, len(texts), (length,), generator=generator).tolist()]
    tokens = [COMMON["bos_token_id"]]
    for grid in grids:
        tokens += text[:3] + image_tokens(config, grid)
        text = text[3:]
    assert len(tokens) < length
    return tokens + text[:length - len(tokens)]


def prompt_goldens(loaded, exact, images, grids, chosen, length, seed):
    def types_of(tokens):
        ids = torch.tensor([tokens])
        return {"input_ids": ids, "mm_token_type_ids": (ids == IMAGE).int()} if is_flat(loaded.config) else {"input_ids": ids}

    def forward_of(model):
        inputs = image_inputs(model, [images[i] for i in chosen])
        return lambda tokens: model(**types_of(tokens), **inputs, use_cache=False).logits[0]

    generator = torch.Generator().manual_seed(seed + length)
    tokens = draw_prompt(length, [grids[i] for i in chosen], loaded.config, generator)
    golden, error = make_goldens.make_prompt_goldens(forward_of(loaded), forward_of(exact), tokens)
    golden = {"images": chosen, **golden}
    if is_flat(loaded.config):
        positions, _ = loaded.model.get_rope_index(
            **types_of(tokens), image_grid_thw=torch.tensor([[1, *grids[i]] for i in chosen]))
        golden |= {"positions": positions[:, 0].tolist(), "next_position": positions.max().item() + 1}
    return golden, error


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
        # Of recurrent models a norm over a head's few values may divide by next to nothing.
        steady = not is_flat(loaded.config) or prompts[-1][1] <= 0.9 * make_goldens.MAX_REFERENCE_ERROR
        if not steady or not make_goldens.is_telling([prompts[-1][0]]):
            return None
    source = (f"transformers {transformers.__version__}, float32, eager attention; torch "
              f"{torch.__version__.split('+')[0]}; seed {seed}")
    goldens = {"source": source, "images": entries, "prompts": [golden for golden, _ in prompts]}
    return goldens, row_error, max(error for _, error in prompts)


@torch.no_grad()
def make(name):
    for seed in range(400):
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
