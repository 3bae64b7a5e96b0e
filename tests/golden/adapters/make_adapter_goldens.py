# SPDX-License-Identifier: Apache-2.0
"""Makes tiny low-rank adapters of the models in ../models, and the logits of base and adapter together.

Each row of ADAPTERS is a folder beside this script, written by PEFT's save_pretrained with seeded random matrices, and
goldens.json: model (the folder in ../models), prompts[] as make_goldens.py has them, without greedy tokens. The oracle
is PEFT over transformers, float32, eager attention, weights upcast from the stored type; it is checked against the same
model with the adapter merged into its weights, in float64. llama_gqa.gguf is the adapter llama_gqa as llama.cpp's
converter writes it for ../gguf/llama_gqa.gguf: rows of Q and K in the order of their rotation pairs; olmoe_modules.gguf
that of ../gguf/olmoe_tiny.gguf.

Usage: make_adapter_goldens.py [NAME...]     (peft 0.21.2, accelerate, gguf; others: models/training/requirements.txt)
"""

import json
import pathlib
import re
import shutil
import sys

import gguf
import numpy
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
MAX_REFERENCE_ERROR = 4e-5
MIN_EFFECT = 0.05  # of the adapter on some logit
PROMPT_TOKENS = 40
POSITIONS = [0, 17, 39]
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
# Folder -> model, dtype of the matrices, fields of LoraConfig.
ADAPTERS = {
    "llama_gqa": ("llama_gqa", torch.bfloat16, {
        "r": 8, "lora_alpha": 16, "target_modules": "all-linear", "rank_pattern": {"down_proj": 3},
        "alpha_pattern": {"model.layers.1.self_attn.q_proj": 5}}),
    "llama_gqa_second": ("llama_gqa", torch.float32, {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}),
    "llama_gqa_third": ("llama_gqa", torch.float16, {
        "r": 17, "lora_alpha": 9, "target_modules": ["o_proj", "up_proj"], "layers_to_transform": [1]}),
    "gpt2_tiny": ("gpt2_tiny", torch.float32, {
        "r": 5, "lora_alpha": 7, "target_modules": ["c_attn", "c_proj", "c_fc"], "fan_in_fan_out": True}),
    "qwen3_qk_norm": ("qwen3_qk_norm", torch.float32, {
        "r": 8, "lora_alpha": 4, "use_rslora": True, "target_modules": r".*\.(q_proj|k_proj|o_proj|gate_proj)"}),
    "gemma3_tiny": ("gemma3_tiny", torch.float32, {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"}),
    "phi3_tiny": ("phi3_tiny", torch.float32, {"r": 6, "lora_alpha": 6, "target_modules": "all-linear"}),
    "neox_parallel": ("neox_parallel", torch.float32, {
        "r": 4, "lora_alpha": 4, "target_modules": ["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"]}),
    "cohere_tiny": ("cohere_tiny", torch.float32, {"r": 4, "lora_alpha": 4, "target_modules": ["q_proj", "k_proj"]}),
    "granite_tiny": ("granite_tiny", torch.float32, {"r": 4, "lora_alpha": 4, "target_modules": "all-linear"}),
    "gemma4_e_tiny": ("gemma4_e_tiny", torch.float32, {
        "r": 4, "lora_alpha": 4, "target_modules": ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"]}),
    # Recurrent layers, queries whose matrix has an output gate.
    "qwen35_tiny": ("qwen35_tiny", torch.float32, {"r": 4, "lora_alpha": 4, "target_modules": "all-linear"}),
    "qwen3next_tiny": ("qwen3next_tiny", torch.bfloat16, {
        "r": 4, "lora_alpha": 4, "target_modules": ["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj", "v_proj"]}),
    "qwen35_gates": ("qwen35_tiny", torch.float32, {"r": 3, "lora_alpha": 5, "target_modules": ["in_proj_a", "in_proj_b"]}),
    "lfm2_tiny": ("lfm2_tiny", torch.float16, {"r": 4, "lora_alpha": 4, "target_modules": "all-linear"}),
    "mamba2_tiny": ("mamba2_tiny", torch.float32, {"r": 4, "lora_alpha": 2, "target_modules": ["in_proj"]}),
    "falcon_h1_tiny": ("falcon_h1_tiny", torch.float32, {  # PEFT has no out_proj of Mamba's
        "r": 4, "lora_alpha": 4, "target_modules": ["in_proj", "q_proj", "o_proj", "down_proj"]}),
    # Experts as parameters that stack them, routers, shared experts, latent attention.
    "mixtral_tiny": ("mixtral_tiny", torch.float32, {
        "r": 3, "lora_alpha": 6, "target_modules": ["q_proj"], "target_parameters": [*EXPERTS, "mlp.gate.weight"]}),
    "qwen2_moe_tiny": ("qwen2_moe_tiny", torch.bfloat16, {
        "r": 4, "lora_alpha": 8, "target_modules": ["o_proj", "shared_expert.gate_proj", "shared_expert.up_proj",
                                                    "shared_expert.down_proj", "shared_expert_gate"],
        "target_parameters": ["mlp.experts.down_proj", "mlp.gate.weight"]}),
    "qwen3_moe_tiny": ("qwen3_moe_tiny", torch.float16, {
        "r": 2, "lora_alpha": 4, "target_modules": [], "target_parameters": ["mlp.experts.gate_up_proj"]}),
    "gpt_oss_tiny": ("gpt_oss_tiny", torch.float32, {
        "r": 3, "lora_alpha": 3, "target_modules": ["v_proj"], "target_parameters": [*EXPERTS, "mlp.router.weight"]}),
    "llama4_tiny": ("llama4_tiny", torch.float32, {
        "r": 3, "lora_alpha": 6, "target_modules": ["q_proj", "shared_expert.up_proj", "shared_expert.down_proj"],
        "target_parameters": ["feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj"]}),
    "granitemoe_tiny": ("granitemoe_tiny", torch.float32, {
        "r": 3, "lora_alpha": 6, "target_modules": [], "target_parameters": [
            "experts.gate_up_proj", "experts.down_proj", "block_sparse_moe.router.weight"]}),
    "deepseek_v2_tiny": ("deepseek_v2_tiny", torch.float32, {
        "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "kv_a_proj_with_mqa"], "rank_pattern": {r".*\.gate_up_proj": 6},
        "target_parameters": ["gate_up_proj", "down_proj", "gate.weight"]}),
    "deepseek_v3_tiny": ("deepseek_v3_tiny", torch.float32, {
        "r": 4, "lora_alpha": 8, "target_modules": ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj"],
        "target_parameters": [*EXPERTS, "mlp.gate.weight"]}),
    "nemotron_h_tiny": ("nemotron_h_tiny", torch.float32, {
        "r": 3, "lora_alpha": 6, "target_modules": ["q_proj", "fc1_latent_proj", "fc2_latent_proj", "shared_experts.up_proj"],
        "target_parameters": ["mixer.experts.up_proj", "mixer.experts.down_proj"]}),
    "gemma4_moe_tiny": ("gemma4_moe_tiny", torch.float32, {
        "r": 3, "lora_alpha": 6, "target_modules": ["router.proj", "mlp.up_proj"],
        "target_parameters": ["experts.gate_up_proj", "experts.down_proj"]}),
    "lfm2moe_tiny": ("lfm2moe_tiny", torch.float32, {
        "r": 3, "lora_alpha": 6, "target_modules": ["in_proj"], "target_parameters": [
            "feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj", "feed_forward.gate.weight"]}),
    "llama_gqa_head": ("llama_gqa", torch.float32, {"r": 4, "lora_alpha": 8, "target_modules": ["lm_head", "v_proj"]}),
    "neox_head": ("neox_parallel", torch.bfloat16, {"r": 3, "lora_alpha": 3, "target_modules": ["lm_head"]}),
}
# Folder -> model, dtype, r, lora_alpha and, of each layer with experts, the gate, up and down projections of an expert and
# one of attention: an adapter of transformers 4, whose experts are modules. PEFT's own conversion loads it.
MODULES = {
    "mixtral_modules": ("mixtral_tiny", torch.float32, 3, 6,
                        [f"block_sparse_moe.experts.@.{name}" for name in ("w1", "w3", "w2")], "self_attn.q_proj"),
    "qwen3_moe_modules": ("qwen3_moe_tiny", torch.bfloat16, 4, 4,
                          [f"mlp.experts.@.{name}_proj" for name in ("gate", "up", "down")], "self_attn.v_proj"),
    "olmoe_modules": ("olmoe_tiny", torch.float32, 2, 3,
                      [f"mlp.experts.@.{name}_proj" for name in ("gate", "up", "down")], "self_attn.v_proj"),
}


def randomize(model, seed, dtype):
    """Every matrix, B too, which PEFT begins with zeros; rounded to the dtype that is stored."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if ".lora_" not in name:
            continue
        fan_in = weight.shape[1]
        if "experts" in name and ".lora_B." in name and weight.shape[1] > 8:  # of a parameter: ranks of all experts
            fan_in = 1
        values = 0.2 * torch.randn(weight.shape, generator=generator) / fan_in ** 0.5
        weight.data = values.to(dtype).float()


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].double()


def save(model, folder, dtype):
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = None
    for field in ("target_modules", "target_parameters", "rank_pattern", "alpha_pattern"):  # PEFT writes sets in any order
        if isinstance(config.get(field), list):
            config[field] = sorted(config[field])
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    path = folder / "adapter_model.safetensors"
    save_file({name: tensor.to(dtype).contiguous() for name, tensor in load_file(path).items()}, path)


def load_base(model_name):
    return transformers.AutoModelForCausalLM.from_pretrained(MODELS / model_name, dtype=torch.float32,
                                                             attn_implementation="eager",
                                                             experts_implementation="eager").eval()


def make(name, seed):
    model_name, dtype, fields = ADAPTERS[name]
    base = load_base(model_name)

    def adapt():
        model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **fields)).eval()
        randomize(model, seed, dtype)
        save(model, HERE / name, dtype)
        return model

    write_logits(name, model_name, base, adapt, seed)


def make_modules(name, seed):
    model_name, dtype, rank, alpha, experts, projection = MODULES[name]
    base = load_base(model_name)
    generator = torch.Generator().manual_seed(seed)
    tensors = {}

    def add(module, in_features, out_features):
        for half, shape in (("A", (rank, in_features)), ("B", (out_features, rank))):
            values = 0.4 * torch.randn(shape, generator=generator) / shape[1] ** 0.5
            tensors[f"base_model.model.model.layers.{module}.lora_{half}.weight"] = values.to(dtype)

    for index, layer in enumerate(base.model.layers):
        linear = layer.get_submodule(projection)
        add(f"{index}.{projection}", linear.in_features, linear.out_features)
        if not hasattr(layer.mlp, "experts"):
            continue
        count, hidden, width = layer.mlp.experts.down_proj.shape
        for expert in range(count):
            gate, up, down = (module.replace("@", str(expert)) for module in experts)
            add(f"{index}.{gate}", hidden, width)
            add(f"{index}.{up}", hidden, width)
            add(f"{index}.{down}", width, hidden)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    targets = [module.rsplit(".", 1)[1] for module in [*experts, projection]]
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": alpha, "bias": "none",
              "target_modules": targets}
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    write_logits(name, model_name, base, lambda: peft.PeftModel.from_pretrained(base, folder).eval(), seed)


def write_logits(name, model_name, base, adapt, seed):
    """adapt: makes PEFT's model of the base, whose logits these are."""
    vocab = base.get_input_embeddings().weight.shape[0]
    tokens = torch.randint(3, vocab, (PROMPT_TOKENS,), generator=torch.Generator().manual_seed(seed)).tolist()
    plain = logits_of(base, tokens)
    model = adapt()
    adapted = logits_of(model, tokens)
    effect = (adapted - plain).abs().max().item()
    merged = model.merge_and_unload().double()
    error = (logits_of(merged, tokens) - adapted).abs().max().item()
    print(f"{name}: effect {effect:.3g}, float32 against merged float64 {error:.2g}")
    assert effect > MIN_EFFECT and error < MAX_REFERENCE_ERROR, name
    logits = [{"position": i, "values": [round(x, 6) for x in adapted[i].tolist()]} for i in POSITIONS]
    golden = {"model": model_name, "prompts": [{"tokens": tokens, "logits": logits, "greedy_tokens": [], "greedy_gaps": []}]}
    (HERE / name / "goldens.json").write_text(json.dumps(golden) + "\n")


def rotation_pairs(rows, heads):
    """Rows of B in the order in which llama.cpp's converter stores those of Q and K."""
    head_dim = rows.shape[0] // heads
    return rows.reshape(heads, 2, head_dim // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def make_gguf():
    """The adapter llama_gqa without its patterns' scales: a GGUF adapter has one alpha, so that they are in B."""
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down"}
    config = json.loads((MODELS / "llama_gqa" / "config.json").read_text())
    adapter = json.loads((HERE / "llama_gqa" / "adapter_config.json").read_text())
    tensors = load_file(HERE / "llama_gqa" / "adapter_model.safetensors")
    writer = adapter_writer("llama_gqa.gguf", "llama", adapter["lora_alpha"])
    for name in sorted(tensors):
        found = re.fullmatch(r"base_model\.model\.model\.layers\.(\d+)\.(.*)\.lora_([AB])\.weight", name)
        values = tensors[name].float().numpy()
        if found[3] == "B":
            module = f"model.layers.{found[1]}.{found[2]}"
            alpha = next((a for path, a in adapter["alpha_pattern"].items() if module.endswith(path)), adapter["lora_alpha"])
            values = values * numpy.float32(alpha / adapter["lora_alpha"])
            if found[2] == "self_attn.q_proj":
                values = rotation_pairs(values, config["num_attention_heads"])
            if found[2] == "self_attn.k_proj":
                values = rotation_pairs(values, config["num_key_value_heads"])
        writer.add_tensor(f"blk.{found[1]}.{names[found[2]]}.weight.lora_{found[3].lower()}",
                          numpy.ascontiguousarray(values, dtype=numpy.float32))
    close(writer)


def make_expert_gguf():
    """olmoe_modules with the experts of a layer in one tensor, as llama.cpp's converter stacks them."""
    names = {"self_attn.v_proj": "attn_v", "gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps"}
    tensors = load_file(HERE / "olmoe_modules" / "adapter_model.safetensors")
    stacks = {}
    for name, values in tensors.items():
        found = re.fullmatch(r"base_model\.model\.model\.layers\.(\d+)\.(?:mlp\.experts\.(\d+)\.)?(.*)\.lora_([AB])\.weight", name)
        stack = f"blk.{found[1]}.{names[found[3]]}.weight.lora_{found[4].lower()}"
        stacks.setdefault(stack, {})[int(found[2] or 0)] = values.float().numpy()
    writer = adapter_writer("olmoe_modules.gguf", "olmoe", MODULES["olmoe_modules"][3])
    for stack, experts in sorted(stacks.items()):
        values = numpy.stack([experts[i] for i in range(len(experts))])
        writer.add_tensor(stack, numpy.ascontiguousarray(values if "_exps" in stack else values[0]))
    close(writer)


def adapter_writer(file, architecture, alpha):
    writer = gguf.GGUFWriter(HERE / file, architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(alpha))
    return writer


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    for index, adapter_name in enumerate(ADAPTERS):
        if len(sys.argv) < 2 or adapter_name in sys.argv[1:]:
            make(adapter_name, 100 + index)
    for index, adapter_name in enumerate(MODULES):
        if len(sys.argv) < 2 or adapter_name in sys.argv[1:]:
            make_modules(adapter_name, 200 + index)
    make_gguf()
    make_expert_gguf()
