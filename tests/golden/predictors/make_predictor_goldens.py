# SPDX-License-Identifier: Apache-2.0
"""Makes goldens of layers that predict further tokens (multi-token prediction): tiny seeded checkpoints and the logits of their
predictions.

transformers ignores such layers, so the reference is made of its parts: a model of one layer more than the checkpoint has,
whose last layer is the predicting one. Of each position p but the last of a prompt, with h the hidden rows of the model after
its final norm: logits = lm_head(norm(layer(eh_proj([enorm(embedding(token p + 1)), hnorm(h_p)])))). Source: DeepSeek-V3
Technical Report, section 2.2; vLLM, models deepseek_mtp and qwen3_next_mtp. Of Step 3.5 h are the rows before the final norm,
and the layer has a head of its own. Source: vLLM, model step3p5_mtp; llama.cpp, src/models/step35.cpp.

golden.json: {"source", "tokens": [T], "logits": [T - 1][vocab_size]}, float32.

Usage: make_predictor_goldens.py [NAME...]     (package versions: models/training/requirements.txt)
"""

import copy
import json
import math
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models"))
import make_family_goldens as families  # noqa: E402
import make_goldens  # noqa: E402

NUM_TOKENS = 26
# Names of a layer's own parts; "": the names of DeepSeek V3 and GLM.
QWEN_NAMES = {"eh_proj": "mtp.fc", "enorm": "mtp.pre_fc_norm_embedding", "hnorm": "mtp.pre_fc_norm_hidden",
              "shared_head.norm": "mtp.norm", "": "mtp.layers.0."}
LINEAR, FULL, SLIDING = "linear_attention", "full_attention", "sliding_attention"
# Published lists have an entry for the layer, too.
STEP_NAMES = {"shared_head.norm": "model.layers.3.transformer.shared_head.norm",
              "shared_head.output": "model.layers.3.transformer.shared_head.output"}
STEP = {"num_hidden_layers": 4, "layer_types": [FULL, SLIDING, SLIDING, SLIDING], "sliding_window": 9,
        "mlp_layer_types": ["dense", "sparse", "sparse", "dense"], "swiglu_limits": [None, None, 0.8, None],
        "swiglu_limits_shared": [0.6, 0.0, None, 0.7]}
MODELS = {
    "qwen35_mtp": ("qwen35_tiny", {"num_hidden_layers": 4, "layer_types": [LINEAR, FULL, LINEAR, FULL]}, QWEN_NAMES),
    "glm4_moe_mtp": ("glm4_moe_tiny", {"num_hidden_layers": 3}, {}),
    "deepseek_v3_mtp": ("deepseek_v3_tiny", {"num_hidden_layers": 3}, {}),
    "step_mtp": ("step_tiny", STEP, STEP_NAMES),
}


def drawn_parts(config, generator):
    """Of the layer, besides its decoder layer; norms of Qwen are 1 + w."""
    width = config.hidden_size
    step = config.model_type == "step3p5"
    offset = 0.0 if step or config.model_type.startswith("qwen3_") else 1.0
    norms = {name: offset + 0.2 * torch.randn(width, generator=generator) for name in ("enorm", "hnorm", "shared_head.norm")}
    projection = 1.6 / math.sqrt(2 * width) * torch.randn(width, 2 * width, generator=generator)
    head = {"shared_head.output": 2.2 / math.sqrt(width) * torch.randn(families.VOCAB, width, generator=generator)} if step else {}
    return {name: value.bfloat16() for name, value in {**norms, **head, "eh_proj": projection}.items()}


def text_of(model):
    return getattr(model.model, "language_model", model.model)


def norm_of(model, weight):
    norm = copy.deepcopy(text_of(model).norm)
    norm.weight.copy_(weight.float())
    return norm


def predict(model, num_layers, parts, tokens):
    """Logits of the layer behind the first num_layers, [len(tokens) - 1, vocab]."""
    text = text_of(model)
    layers = text.layers
    layer = layers[num_layers]
    text.layers = layers[:num_layers]
    config = model.config.get_text_config()
    config.num_hidden_layers = num_layers
    before_norm = []
    hook = text.norm.register_forward_pre_hook(lambda _, values: before_norm.append(values[0]))
    hidden = text(torch.tensor([tokens]), use_cache=False).last_hidden_state[:, :-1]
    hook.remove()
    if "shared_head.output" in parts:
        hidden = before_norm[0][:, :-1]
    arguments = {}
    kinds = getattr(config, "layer_types", None) or [FULL] * (num_layers + 1)
    like = [index for index, kind in enumerate(kinds) if index < num_layers and kind == kinds[num_layers]][-1]
    hook = text.layers[like].register_forward_pre_hook(
        lambda _, values, named: arguments.update(named), with_kwargs=True)
    text(torch.tensor([tokens[1:]]), use_cache=False)  # as many positions, from 0 on
    hook.remove()
    embedding = text.embed_tokens(torch.tensor([tokens[1:]]))
    both = torch.cat([norm_of(model, parts["enorm"])(embedding), norm_of(model, parts["hnorm"])(hidden)], dim=-1)
    with families.Choices() as choices:
        output = layer(torch.nn.functional.linear(both, parts["eh_proj"].float()), **arguments)
    output = output[0] if isinstance(output, tuple) else output
    text.layers = layers
    head = parts.get("shared_head.output", model.lm_head.weight).float()
    return torch.nn.functional.linear(norm_of(model, parts["shared_head.norm"])(output), head)[0], choices.margin


def store(folder, num_layers, parts, names):
    """The checkpoint as published: a layer fewer in its config, and the layer's own parts."""
    tensors = load_file(folder / "model.safetensors")
    layer = f"model.layers.{num_layers}."
    tensors |= {f"{layer}{name}.weight": value for name, value in parts.items()}

    def published(name):
        for part, stored in names.items():
            if name.startswith(layer + part):
                return stored + name.removeprefix(layer + part)
        return name

    save_file({published(name): value for name, value in tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    whole = json.loads((folder / "config.json").read_text())
    config = whole.get("text_config", whole)
    config["num_hidden_layers"] = num_layers
    if config.pop("per_layer_config", None) is None and "layer_types" in config:
        config["layer_types"] = config["layer_types"][:num_layers]
    config["mtp_num_hidden_layers" if names is QWEN_NAMES else "num_nextn_predict_layers"] = 1
    (folder / "config.json").write_text(json.dumps(whole, indent=2) + "\n")


@torch.no_grad()
def make(name):
    base, fields, names = MODELS[name]
    model_type, common = families.FAMILIES[base]
    num_layers = fields["num_hidden_layers"] - 1 if names else fields["num_hidden_layers"]
    fields = {**common.get("text_config", common), **fields, "num_hidden_layers": num_layers + 1}
    if "text_config" in common:
        fields = {**common, "text_config": fields}
    folder = HERE / name
    for seed in range(100):
        model = families.build(model_type, fields)
        families.draw(model, seed)
        generator = torch.Generator().manual_seed(1000 + seed)
        parts = drawn_parts(model.config.get_text_config(), generator)
        families.save(model, folder)
        loaded = families.load(folder, torch.float32).eval()
        tokens = torch.randint(3, families.VOCAB, (NUM_TOKENS,), generator=generator).tolist()
        logits, margin = predict(loaded, num_layers, parts, tokens)
        best = torch.topk(logits, 2).values
        if margin >= 10 * families.MIN_CHOICE_MARGIN and (best[:, 0] - best[:, 1]).min() > 1e-3:
            break
    else:
        raise SystemExit(f"{name}: no seed keeps choices apart")
    store(folder, num_layers, parts, names)
    golden = {"source": f"transformers {transformers.__version__}, float32, its parts; torch "
                        f"{torch.__version__.split('+')[0]}; seed {seed}",
              "tokens": tokens, "logits": [make_goldens.rounded(row.tolist()) for row in logits]}
    (folder / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: seed {seed}, smallest margin of a choice {margin:.1e}, {size} bytes", flush=True)


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in sys.argv[1:] or MODELS:
        make(name)


if __name__ == "__main__":
    main()
