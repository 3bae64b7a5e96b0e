# SPDX-License-Identifier: Apache-2.0
"""Makes goldens of decoder families from transformers alone: tiny seeded checkpoints, written by transformers itself, their
logits and greedy continuations.

Each row of FAMILIES (family_configs.py) is a folder beside this script, as make_goldens.py describes it. The oracle is
transformers in float32; its logits are checked against the same modules in float64, and no choice of an expert or of a group of experts
may be near a tie. config.json is as transformers 5 writes it. Of multimodal models (fields of the text model under
"text_config") the whole is saved, and the text model runs.

Usage: make_family_goldens.py [NAME...]     (package versions: models/training/requirements.txt)
"""

import json
import math
import pathlib
import re
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import make_goldens
from family_configs import COMMON, FAMILIES, VOCAB

HERE = pathlib.Path(__file__).resolve().parent
MIN_CHOICE_MARGIN = 1e-4  # of scores between 0 and 1; rounding moves them by 1e-6


def has_alibi(config):
    return config.model_type == "bloom" or getattr(config, "alibi", False)


def is_recurrent(config):
    return hasattr(config, "linear_conv_kernel_dim")


def is_mamba(config):
    return hasattr(config, "mamba_d_state") or hasattr(config, "ssm_state_size") or config.model_type == "mamba2"


def is_router(name):
    return name.endswith((".mlp.gate.weight", ".mlp.gate.wg.weight", ".mixer.gate.weight", ".router.weight", ".router.gate.weight", ".feed_forward.gate.weight"))


def draw(model, seed):
    """Wide enough that attention is peaked and logits far apart, as make_goldens.draw_tensors; rounded to BF16."""
    generator = torch.Generator().manual_seed(seed)
    scaled = model.config.model_type.startswith("gemma")  # embeddings by the root of their width
    by_softmax = getattr(model.config.get_text_config(), "model_type", "") == "mistral4"
    layer_inputs = bool(getattr(model.config, "hidden_size_per_layer_input", None))
    offset_norms = scaled and model.config.model_type != "gemma4_text" or model.config.model_type == "nemotron"
    for name, value in model.named_parameters():
        noise = torch.randn(value.shape, generator=generator)
        if getattr(model.config, "kda_safe_gate", False) and name.endswith((".A_log", ".dt_bias")):
            noise = 0.4 * noise if name.endswith(".A_log") else 1.5 * noise - 4.0  # of 5 times a sigmoid
        elif name.endswith(".A_log"):
            noise = 1.2 * noise - 1.0  # states that fade within a few tokens, and ones that last for hundreds
        elif name.endswith(".dt_bias"):
            noise = 0.5 * noise - 0.5
        elif name.endswith((".mamba.D", ".mixer.D")):
            noise = 0.5 + 0.5 * noise
        elif name.endswith((".in_proj_a.weight", ".in_proj_b.weight", ".in_proj_ba.weight", ".a_proj.weight", ".b_proj.weight",
                            ".f_proj.weight", ".f_a_proj.weight", ".g_a_proj.weight", ".self_attn.g_proj.weight")):
            noise = 1.0 / math.sqrt(value.shape[1]) * noise  # neither closed nor open: what is next to 0 is normalised
        elif model.config.model_type.startswith("qwen3_") and is_recurrent(model.config) and name.endswith("norm.weight"):
            noise = (1.0 if "linear_attn" in name else 0.0) + 0.2 * noise  # all others are 1 + w
        elif value.dim() == 1 and ("norm" in name or ".ln_" in name) and name.endswith("weight"):
            kind = model.config.model_type
            offset = offset_norms or kind == "muse_glimmer" and "layernorm" in name or kind in ("step3p7", "minimax_m3_vl")
            noise = (0.0 if offset else 1.0) + 0.2 * noise
            if (scaled or offset_norms) and name == "model.norm.weight":
                noise += 9.0  # gives the logits back what the narrow embedding takes
            if kind == "apertus" and ("q_norm" in name or "k_norm" in name):
                noise *= 1.6  # of heads of 8 elements, whose scores are within 2.8 else
            if model.config.model_type == "gemma4_text" and ("q_norm" in name or "k_norm" in name):
                noise *= 0.3 if layer_inputs else 0.5  # scores have no other scale
            if name.endswith("post_per_layer_input_norm.weight"):
                noise *= 0.3  # of a product of so few values that some are next to nothing, each as wide as the others
            if "embeddings_layernorm" in name:
                noise *= 0.4  # as wide as an embedding without a norm
        elif re.search(r"_hc\.(fn|scale)$|hc_head\.hc_(fn|scale)$", name):
            # Of rows of length 1, and factors of what they give.
            noise = 1.0 + 0.2 * noise if value.dim() == 1 else 1.0 / math.sqrt(value.shape[1]) * noise
        elif name.endswith("position_bias"):
            noise = 0.5 * noise
        elif name.endswith("conv.conv.weight"):
            noise = 0.6 * noise  # of products of three projections
        elif name.endswith("sinks"):
            pass  # of the size of scores
        elif name.endswith(("router.scale", "per_expert_scale")):
            noise = 1.0 + 0.2 * noise
        elif name.endswith("per_layer_input_gate.weight"):
            noise = 0.5 / math.sqrt(value.shape[1]) * noise  # nor a GELU so far below 0 that rounding moves all of it
        elif name.endswith("router.proj.weight"):
            noise = 1.5 * noise  # its rows are of length 1
        elif value.dim() == 1 or name.endswith("bias"):
            noise = 0.2 * noise
        elif "embed" in name or "lm_head" in name:
            noise = (0.3 if scaled or offset_norms else 2.2) / math.sqrt(value.shape[1]) * noise
        elif is_router(name) or name.endswith("indexer.weights_proj.weight"):
            # Scores that are far apart, so that rounding moves none; of a softmax narrower, or many are next to 0.
            noise = (1.2 if by_softmax else 3.0) / math.sqrt(value.shape[1]) * noise
        else:
            # With ALiBi alone, attention must be more peaked for continuations that do not only repeat.
            wide = has_alibi(model.config) and "query_key_value" in name
            noise = (3.2 if wide else 1.6) / math.sqrt(min(value.shape[-2:])) * noise  # of a stack of experts: of each
        value.copy_(noise.bfloat16())
    for name, value in model.named_buffers():
        if name.endswith(("e_score_correction_bias", "expert_bias")):
            value.copy_((0.3 * torch.randn(value.shape, generator=generator)).bfloat16())
        elif name.endswith("tid2eid"):
            value.copy_(torch.rand(len(value), model.config.n_routed_experts, generator=generator).argsort()[:, :value.shape[1]])
        elif name.endswith("layer_scalar"):
            value.copy_((0.7 + 0.1 * torch.randn(value.shape, generator=generator)).bfloat16())


def auto_class(config):
    multimodal = getattr(config, "vision_config", None) is not None
    return transformers.AutoModelForImageTextToText if multimodal else transformers.AutoModelForCausalLM


def build(model_type, fields):
    common = {**COMMON, "tie_word_embeddings": False}
    if "text_config" in fields:
        fields = {**fields, "text_config": {**common, **fields["text_config"]}}
        common = {"tie_word_embeddings": False}
    config = transformers.AutoConfig.for_model(model_type, **{**common, **fields})
    config._attn_implementation = "eager"
    return auto_class(config).from_config(config, dtype=torch.float32).eval()


class Choices:
    """The smallest difference, over all calls of topk inside the block, of the last value taken and the next."""

    def __enter__(self):
        self.margin = math.inf
        self.function, self.method = torch.topk, torch.Tensor.topk
        torch.topk = torch.Tensor.topk = lambda *values, **options: self.topk(*values, **options)
        return self

    def __exit__(self, *_):
        torch.topk, torch.Tensor.topk = self.function, self.method

    def topk(self, values, k, dim=-1, **options):
        if k < values.shape[dim]:
            last = self.function(values, k + 1, dim=dim).values.unbind(dim)[-2:]
            gap = torch.where(last[0] < -1e30, math.inf, last[0] - last[1])  # masked by the least number or by -inf
            self.margin = min(self.margin, gap.min().item())
        return self.function(values, k, dim=dim, **options)


def as_published_hybrid(tensors, config):
    """OLMo Hybrid: transformers cuts the convolution's channels into three equal parts, and gives the norms after the attention
    the name of those before the MLP of delta nets."""
    def published(name):
        attends = config.layer_types[int(name.split(".")[2])] == "full_attention" if ".layers." in name else False
        return name.replace("feedforward_layer_norm", "post_attention_layernorm") if attends else name

    tensors = {published(name): tensor for name, tensor in tensors.items()}
    keys = config.linear_num_key_heads * config.linear_key_head_dim
    for layer in range(config.num_hidden_layers):
        names = [f"model.layers.{layer}.linear_attn.{part}_conv1d.weight" for part in "qkv"]
        if names[0] not in tensors:
            continue
        channels = torch.cat([tensors[name] for name in names])
        parts = torch.split(channels, [keys, keys, len(channels) - 2 * keys])
        tensors |= {name: part.contiguous() for name, part in zip(names, parts)}
    return tensors


def save(model, folder, published=True):
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    # As published: transformers gives the text model of kimi_k25 the name that layers have in its vision, and the dense
    # MLPs of kimi_linear that of its experts.
    tensors = {re.sub(r"block_sparse_moe\.(gate|up|down)_proj", r"mlp.\1_proj",
                      name.replace("language_model.model.blocks.", "language_model.model.layers.")): tensor
               for name, tensor in tensors.items()}
    if model.config.model_type == "olmo_hybrid":
        tensors = as_published_hybrid(tensors, model.config)
    if model.config.model_type == "qwen3_vl_moe" and published:  # matrices of experts have a row for each input
        tensors = {name: tensor.transpose(1, 2).contiguous() if ".experts." in name else tensor for name, tensor in tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})  # one order, whatever the version


def attention_of(config):
    """Falcon's eager attention adds ALiBi's bias twice: to the scores, and in the mask that it shares with SDPA."""
    return "sdpa" if getattr(config, "alibi", False) else "eager"


def load(folder, dtype):
    config = transformers.AutoConfig.from_pretrained(folder)
    return auto_class(config).from_pretrained(folder, dtype=dtype, attn_implementation=attention_of(config),
                                              experts_implementation="eager")


# MXFP4 of the experts, by their largest magnitudes. Source: OCP Microscaling Formats 1.0, section 6.3.
MXFP4_VALUES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def mxfp4_tensors(model):
    """Gives the experts of a model values that MXFP4 holds; returns the tensors that hold them, by name."""
    tensors = {}
    for name, value in model.named_parameters():
        if ".experts." not in name or name.endswith("bias"):
            continue
        rows = value.transpose(1, 2).float()  # [experts, out_features, in_features]
        blocks = rows.reshape(*rows.shape[:2], -1, 32)
        exponents = torch.floor(torch.log2(blocks.abs().amax(dim=-1))) - 2
        scaled = blocks / torch.exp2(exponents)[..., None]
        codes = (scaled.abs()[..., None] - MXFP4_VALUES).abs().argmin(dim=-1) + 8 * (scaled < 0)
        tensors[name + "_blocks"] = (codes[..., 0::2] + 16 * codes[..., 1::2]).to(torch.uint8)
        tensors[name + "_scales"] = (exponents + 127).to(torch.uint8)
        value.copy_(convert_moe_packed_tensors(tensors[name + "_blocks"], tensors[name + "_scales"], dtype=torch.float32))
    return tensors


def store_mxfp4(tensors, folder):
    """As openai publishes it: blocks and scales in place of the experts' matrices."""
    stored = load_file(folder / "model.safetensors")
    for name in list(stored):
        if name + "_blocks" in tensors:
            del stored[name]
    save_file({**stored, **tensors}, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


MIN_ROUTER_GAP = 1e-3  # of scores before the softmax, whose second choices may have scores near 0


def watch_routers(model):
    """A list that gets, of each router and call, the least gap between the score of a chosen expert and of another."""
    gaps = []

    def hook(module, inputs, output):
        scores = torch.sort(torch.nn.functional.linear(inputs[0].float(), module.weight.float()), descending=True).values
        gaps.append((scores[..., module.top_k - 1] - scores[..., module.top_k]).min().item())

    for name, module in model.named_modules():
        if is_router(name + ".weight") and hasattr(module, "top_k"):
            module.register_forward_hook(hook)
    return gaps


def is_steady(config, results, margins, gaps):
    """Of recurrent models and Gemma 4 a norm over a head's few values may divide by next to nothing, too."""
    largest = max(error for _, error in results)
    if config.model_type in ("kimi_linear", "bailing_hybrid"):  # experts chosen by corrected scores
        return min(margins) >= MIN_CHOICE_MARGIN and largest <= 0.6 * make_goldens.MAX_REFERENCE_ERROR
    if not is_recurrent(config) and min(margins) < MIN_CHOICE_MARGIN:
        return False
    if is_recurrent(config) or config.model_type == "gemma4_text":
        return min(gaps, default=1.0) >= MIN_ROUTER_GAP and largest <= 0.6 * make_goldens.MAX_REFERENCE_ERROR
    return not is_mamba(config) or largest <= 5e-5


# Folders whose goldens hold the states of their recurrent layers after the second prompt.
WITH_STATES = ("qwen35_tiny", "lfm2_tiny", "kimi_linear_tiny", "bailing_hybrid_tiny")


def states_of(model, tokens):
    """Of each recurrent layer the rows before its convolution, the oldest first, and the heads' matrices."""
    cache = model(torch.tensor([tokens]), use_cache=True).past_key_values
    taps = getattr(model.config, "conv_L_cache", None) or model.config.linear_conv_kernel_dim
    states = []
    for layer, kind in enumerate(model.config.layer_types):
        if kind == "full_attention":
            continue
        held = cache.layers[layer]
        values = held.conv_states[0][0, :, 1 - taps:].T.flatten().tolist()
        if held.recurrent_states[0] is not None:
            values += held.recurrent_states[0].flatten().tolist()
        states.append(make_goldens.rounded(values))
    return states


# Where an earlier seed has a choice of experts that products in BF16 make otherwise, or choices of keys near ties.
FIRST_SEED = {"exaone_moe_tiny": 5, "deepseek_v32_tiny": 1, "glm_moe_dsa_tiny": 11}


@torch.no_grad()
def make(name):
    model_type, fields = FAMILIES[name]
    folder = HERE / name
    for seed in range(FIRST_SEED.get(name, 0), 100):
        model = build(model_type, fields)
        distinct = 8 if has_alibi(model.config) else make_goldens.MIN_DISTINCT_TOKENS
        draw(model, seed)
        codes = mxfp4_tensors(model) if name.endswith("mxfp4") else {}
        save(model, folder)
        loaded = load(folder, torch.float32)
        exact = load(folder, torch.float64)

        gaps = watch_routers(loaded) if is_recurrent(loaded.config) else []
        choices = Choices()

        def forward(tokens, of=loaded.eval()):
            with choices:
                logits = of(torch.tensor([tokens]), use_cache=False).logits[0]
            margins.append(choices.margin)
            return logits

        results, margins = [], []
        for tokens in make_goldens.draw_prompts(VOCAB, seed):
            results.append(make_goldens.make_prompt_goldens(forward, lambda tokens: forward(tokens, exact.eval()), tokens))
            steady = is_steady(loaded.config, results, margins, gaps)
            if not steady or not make_goldens.is_telling([results[-1][0]], distinct):
                break
        telling = make_goldens.is_telling([r[0] for r in results], distinct) and steady
        if len(results) == len(make_goldens.PROMPTS) and telling:
            break
    else:
        raise SystemExit(f"{name}: no seed gives telling continuations")
    if codes:
        store_mxfp4(codes, folder)
    error = max(r[1] for r in results)
    if name in WITH_STATES:
        golden = results[1][0]
        golden["states"] = states_of(loaded, golden["tokens"])
    attention = attention_of(loaded.config)
    goldens = {"source": f"transformers {transformers.__version__}, float32, {attention} attention; torch "
                         f"{torch.__version__.split('+')[0]}; seed {seed}",
               "weights_dtype": "bfloat16", "vocab_size": VOCAB, "prompts": [r[0] for r in results]}
    (folder / "goldens.json").write_text(json.dumps(goldens, separators=(",", ":")) + "\n")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: seed {seed}, float64 difference {error:.1e}, smallest margin of a choice {min(margins):.1e}, {size} bytes",
          flush=True)
    if error > make_goldens.MAX_REFERENCE_ERROR:
        raise SystemExit(f"{name}: float32 and float64 logits differ by {error}")


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in sys.argv[1:] or FAMILIES:
        make(name)


if __name__ == "__main__":
    main()
