# SPDX-License-Identifier: Apache-2.0
"""Draws configs of model families: a function of each returns a model_type and fields beside family_configs.COMMON.

Numbers of heads, their sizes, taps, widths, experts, windows and what mixes a layer are drawn, and what a family may
leave out.
"""

import family_configs as family


def common(rng):
    kv_heads = rng.choice([1, 2, 3])
    heads, head_dim = kv_heads * rng.choice([1, 2, 3]), rng.choice([4, 6, 8, 16])
    return {"hidden_size": heads * head_dim, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "intermediate_size": rng.randint(20, 90), "tie_word_embeddings": rng.random() < 0.5}


def layer_types(rng, recurrent):
    """At least one layer of each kind."""
    kinds = ["full_attention", recurrent] + [rng.choice([recurrent, recurrent, "full_attention"]) for _ in range(rng.randint(0, 3))]
    rng.shuffle(kinds)
    return {"num_hidden_layers": len(kinds), "layer_types": kinds}


def experts(rng):
    count = rng.randint(2, 9)
    return {"num_experts": count, "num_experts_per_tok": rng.randint(1, min(count - 1, 4)), "moe_intermediate_size": rng.randint(8, 40)}


def lfm2(rng):
    return "lfm2", {**common(rng), **layer_types(rng, "conv"), "conv_L_cache": rng.randint(2, 8), "conv_bias": rng.random() < 0.5,
                    "block_multiple_of": rng.choice([1, 8, 20]), "block_ffn_dim_multiplier": rng.choice([0.7, 1.0, 1.5]),
                    "block_auto_adjust_ff_dim": rng.random() < 0.7, "norm_eps": rng.choice([1e-5, 1e-3])}


def lfm2_moe(rng):
    fields = {**common(rng), **layer_types(rng, "conv"), **experts(rng)}
    return "lfm2_moe", {**fields, "conv_L_cache": rng.randint(2, 8), "num_dense_layers": rng.randint(0, fields["num_hidden_layers"] - 1),
                        "use_expert_bias": rng.random() < 0.7, "norm_topk_prob": rng.random() < 0.7,
                        "routed_scaling_factor": rng.choice([1.0, 1.7])}


def qwen35(rng):
    keys = rng.choice([1, 2, 3])
    rope = {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": rng.choice([0.25, 0.5]),
            "mrope_section": [2, 1, 1], "mrope_interleaved": True}
    # Norms over a head's few values divide by next to nothing unless epsilon is large.
    return "qwen3_5_text", {**common(rng), **layer_types(rng, "linear_attention"), "head_dim": 16, "linear_num_key_heads": keys,
                            "linear_num_value_heads": keys * rng.choice([1, 2, 3]), "linear_key_head_dim": rng.randint(4, 20),
                            "linear_value_head_dim": rng.randint(4, 40), "linear_conv_kernel_dim": rng.randint(2, 8),
                            "rms_norm_eps": 0.01, "rope_parameters": rope}


def olmo_hybrid(rng):
    keys = rng.choice([1, 2, 3])
    return "olmo_hybrid", {**common(rng), **layer_types(rng, "linear_attention"), "linear_num_key_heads": keys,
                           "linear_num_value_heads": keys * rng.choice([1, 2, 3]), "linear_key_head_dim": rng.randint(4, 20),
                           "linear_value_head_dim": rng.randint(4, 40), "linear_conv_kernel_dim": rng.randint(2, 8),
                           "linear_allow_neg_eigval": rng.random() < 0.7,
                           "rope_parameters": {"rope_type": "default", "rope_theta": rng.choice([None, 1e4])}}


def qwen35_moe(rng):
    return "qwen3_5_moe_text", {**qwen35(rng)[1], **experts(rng), "shared_expert_intermediate_size": rng.randint(8, 40)}


def kimi_linear(rng):
    fields = {**common(rng), **layer_types(rng, "linear_attention"), **experts(rng)}
    fields["num_local_experts"] = fields.pop("num_experts")
    sizes = {name: rng.randint(2, 24) for name in ("kv_lora_rank", "qk_nope_head_dim", "v_head_dim")}
    return "kimi_linear", {**fields, **sizes, "qk_rope_head_dim": 2 * rng.randint(1, 6), "num_key_value_heads": fields["num_attention_heads"],
                           "first_k_dense_replace": rng.randint(0, fields["num_hidden_layers"] - 1), "linear_num_heads": rng.randint(1, 4),
                           "linear_head_dim": rng.randint(4, 40), "linear_conv_kernel_dim": rng.randint(2, 8), "rms_norm_eps": 0.01}


def bailing_hybrid(rng):
    fields = kimi_linear(rng)[1]
    head_dim = fields.pop("linear_head_dim")
    for name in ("linear_num_heads", "linear_conv_kernel_dim"):
        fields.pop(name)
    return "bailing_hybrid", {**fields, "head_dim": head_dim, "short_conv_kernel_size": rng.randint(2, 8), "n_group": 1, "topk_group": 1,
                              "kda_safe_gate": rng.random() < 0.7, "kda_lower_bound": rng.choice([-5.0, -2.0]),
                              "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}


def sliding_and_full(rng):
    """At least one layer of each kind, the last one full."""
    kinds = ["sliding_attention", "full_attention"]
    rng.shuffle(kinds)
    return kinds + [rng.choice(kinds) for _ in range(rng.randint(0, 3))] + ["full_attention"]


def gemma4_base(rng, kinds):
    fields = {**common(rng), "num_hidden_layers": len(kinds), "layer_types": kinds, "head_dim": rng.choice([8, 12, 16, 24])}
    return {**fields, "global_head_dim": rng.choice([16, 24, 32, 48]), "sliding_window": rng.randint(2, 40),
            "final_logit_softcapping": rng.choice([None, 30.0]), "hidden_size_per_layer_input": 0}


def gemma4(rng):
    fields = gemma4_base(rng, sliding_and_full(rng))
    kv_heads = rng.choice([n for n in (1, 2, 3) if fields["num_attention_heads"] % n == 0])
    return "gemma4_text", {**fields, "attention_k_eq_v": rng.random() < 0.7, "num_global_key_value_heads": kv_heads}


def gemma4_e(rng):
    own = sliding_and_full(rng)[:-1]
    shared = [rng.choice(own) for _ in range(rng.randint(0, 2))] + ["full_attention"]
    return "gemma4_text", {**gemma4_base(rng, own + shared), "num_kv_shared_layers": len(shared),
                           "use_double_wide_mlp": rng.random() < 0.5, "hidden_size_per_layer_input": rng.randint(3, 20),
                           "vocab_size_per_layer_input": family.VOCAB + rng.randint(0, 3)}


def gemma4_moe(rng):
    of_experts = experts(rng)
    of_experts["top_k_experts"] = of_experts.pop("num_experts_per_tok")
    return "gemma4_text", {**gemma4(rng)[1], **of_experts, "enable_moe_block": True}


def qwen3_next(rng):
    return "qwen3_next", {**qwen35_moe(rng)[1], "rope_parameters": {"rope_type": "default", "rope_theta": 1e6,
                                                                    "partial_rotary_factor": rng.choice([0.25, 0.5])}}


def lfm3(rng):
    kinds = ["conv", "sliding_attention", "full_attention"]
    rng.shuffle(kinds)
    kinds += [rng.choice(kinds) for _ in range(rng.randint(0, 3))]
    return "lfm3", {**common(rng), "num_hidden_layers": len(kinds), "layer_types": kinds, "head_dim": rng.choice([4, 6, 8, 16]),
                    "sliding_window": rng.randint(2, 40), "conv_L_cache": rng.randint(2, 8), "conv_bias": rng.random() < 0.5,
                    "attention_bias": rng.random() < 0.5, "use_sandwich_norm": rng.random() < 0.7,
                    "use_attention_gate": rng.random() < 0.7, "norm_eps": rng.choice([1e-5, 1e-3])}


def mamba_sizes(rng, hidden):
    """Heads of one size that make up a multiple of the hidden row, in groups."""
    expand = rng.choice([1, 2, 3])
    width = expand * hidden
    heads = rng.choice([n for n in range(1, 17) if width % n == 0 and 2 <= width // n <= 64])
    return {"expand": expand, "heads": heads, "dim": width // heads, "state": rng.randint(3, 24), "conv": rng.randint(2, 8),
            "groups": rng.choice([n for n in (1, 2, 3) if heads % n == 0])}


def named_mamba(sizes):
    return {"mamba_expand": sizes["expand"], "mamba_n_heads": sizes["heads"], "mamba_d_head": sizes["dim"],
            "mamba_d_state": sizes["state"], "mamba_d_conv": sizes["conv"], "mamba_n_groups": sizes["groups"]}


def factor(rng):
    return rng.choice([1.0, round(rng.uniform(0.6, 1.4), 2)])


def falcon_h1(rng):
    fields = common(rng)
    sizes = mamba_sizes(rng, fields["hidden_size"])
    names = ("embedding_multiplier", "lm_head_multiplier", "attention_in_multiplier", "key_multiplier",
             "attention_out_multiplier", "ssm_in_multiplier", "ssm_out_multiplier")
    return "falcon_h1", {**fields, **named_mamba(sizes), "mamba_d_ssm": sizes["heads"] * sizes["dim"],
                         "num_hidden_layers": rng.randint(1, 4), "head_dim": rng.choice([4, 8, 12]),
                         "mamba_rms_norm": rng.random() < 0.5, "mamba_norm_before_gate": rng.random() < 0.5,
                         "ssm_multipliers": [factor(rng) for _ in range(5)], "mlp_multipliers": [factor(rng), factor(rng)],
                         **{name: factor(rng) for name in names}}


def bamba(rng):
    fields = {**common(rng), "num_hidden_layers": rng.randint(2, 5)}
    head_dim = rng.choice([8, 12, 16])  # half of it rotates
    fields["hidden_size"] = head_dim * fields["num_attention_heads"]
    attending = rng.sample(range(fields["num_hidden_layers"]), rng.randint(1, fields["num_hidden_layers"] - 1))
    return "bamba", {**fields, **named_mamba(mamba_sizes(rng, fields["hidden_size"])), "attn_layer_indices": sorted(attending)}


def mamba2(rng):
    fields = common(rng)
    sizes = mamba_sizes(rng, fields["hidden_size"])
    return "mamba2", {**fields, "expand": sizes["expand"], "num_heads": sizes["heads"], "head_dim": sizes["dim"],
                      "state_size": sizes["state"], "conv_kernel": sizes["conv"], "n_groups": sizes["groups"],
                      "num_hidden_layers": rng.randint(1, 4), "use_conv_bias": rng.random() < 0.7}


def granite_h(rng):
    fields = {**common(rng), **layer_types(rng, "linear_attention")}
    count = rng.choice([0, 3, 5])
    return "granitemoehybrid", {**fields, **named_mamba(mamba_sizes(rng, fields["hidden_size"])), "num_local_experts": count,
                                "num_experts_per_tok": rng.randint(1, max(count - 1, 1)), "shared_intermediate_size": rng.randint(8, 60),
                                "position_embedding_type": rng.choice([None, "rope"]), "embedding_multiplier": rng.choice([1.0, 3.0]),
                                "attention_multiplier": rng.choice([0.3, 0.5]), "residual_multiplier": rng.choice([0.7, 1.0]),
                                "logits_scaling": rng.choice([0.8, 1.0])}


def nemotron_h(rng):
    fields = common(rng)
    sizes = mamba_sizes(rng, fields["hidden_size"])
    kinds = ["M", "*", rng.choice("E-")] + [rng.choice("M*E-") for _ in range(rng.randint(0, 3))]
    rng.shuffle(kinds)
    groups = rng.choice([1, 2])
    return "nemotron_h", {**fields, "hybrid_override_pattern": "".join(kinds), "num_hidden_layers": len(kinds),
                          "expand": sizes["expand"], "mamba_num_heads": sizes["heads"], "mamba_head_dim": sizes["dim"],
                          "ssm_state_size": sizes["state"], "conv_kernel": sizes["conv"], "n_groups": sizes["groups"],
                          "head_dim": rng.choice([4, 8, 12]), "time_step_min": 1e-30, "n_routed_experts": 6,
                          "num_experts_per_tok": 2, "n_group": groups, "topk_group": 1,
                          "moe_intermediate_size": rng.randint(8, 40), "moe_shared_expert_intermediate_size": rng.randint(8, 40),
                          "moe_latent_size": rng.choice([None, 12, 20]), "routed_scaling_factor": rng.choice([1.0, 1.5])}


def afmoe(rng):
    fields = {**common(rng), **experts(rng), "num_hidden_layers": rng.randint(2, 5)}
    return "afmoe", {**fields, "head_dim": rng.choice([4, 8, 12]), "num_dense_layers": rng.randint(0, fields["num_hidden_layers"] - 1),
                     "num_shared_experts": rng.randint(1, 2), "route_scale": rng.choice([1.0, 1.7]),
                     "global_attn_every_n_layers": rng.randint(2, 3), "sliding_window": rng.randint(2, 40),
                     "mup_enabled": rng.random() < 0.5}


def ernie45_moe(rng):
    count = rng.randint(3, 8)
    return "ernie4_5_moe", {**common(rng), "num_hidden_layers": rng.randint(2, 4), "moe_num_experts": count,
                            "moe_k": rng.randint(1, min(count - 1, 3)), "moe_num_shared_experts": rng.randint(0, 2),
                            "moe_intermediate_size": rng.randint(8, 40), "moe_layer_start_index": rng.randint(0, 1)}


def latent(rng):
    fields = common(rng)
    sizes = {name: rng.randint(2, 24) for name in ("kv_lora_rank", "qk_nope_head_dim", "v_head_dim", "q_lora_rank")}
    return {**fields, **sizes, "qk_rope_head_dim": 2 * rng.randint(1, 6), "num_key_value_heads": fields["num_attention_heads"],
            "num_hidden_layers": rng.randint(1, 3)}


def deepseek_experts(rng):
    return {"n_routed_experts": 6, "num_experts_per_tok": 2, "n_group": rng.choice([1, 2, 3]), "topk_group": 1,
            "moe_intermediate_size": rng.randint(8, 40), "n_shared_experts": rng.randint(1, 2)}


def indexer(rng, fields):
    return {"index_n_heads": 16, "index_head_dim": fields["qk_rope_head_dim"] + 2 * rng.randint(0, 6), "index_topk": rng.randint(3, 60)}


def deepseek_v32(rng):
    fields = latent(rng)
    return "deepseek_v32", {**fields, **deepseek_experts(rng), **indexer(rng, fields),
                            "first_k_dense_replace": rng.randint(0, fields["num_hidden_layers"])}


def glm_moe_dsa(rng):
    fields = latent(rng)
    types = ["full"] + [rng.choice(["full", "shared"]) for _ in range(fields["num_hidden_layers"] - 1)]
    return "glm_moe_dsa", {**fields, **deepseek_experts(rng), **indexer(rng, fields), "n_group": 1, "indexer_types": types,
                           "first_k_dense_replace": rng.randint(0, fields["num_hidden_layers"]),
                           "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}


def mistral4(rng):
    rope = {**family.MINISTRAL3_ROPE, "factor": rng.choice([4.0, 8.0]), "llama_4_scaling_beta": rng.choice([0.1, 0.3])}
    fields = {**latent(rng), **deepseek_experts(rng), "model_type": "mistral4", "first_k_dense_replace": rng.randint(0, 1)}
    fields["rope_parameters"] = {**rope, "original_max_position_embeddings": rng.randint(20, 50)}
    return "mistral3", {"text_config": fields, "vision_config": family.PIXTRAL_VISION, "spatial_merge_size": 1}


def hunyuan(rng):
    return "hunyuan_v1_dense", {**common(rng), "num_hidden_layers": rng.randint(1, 3), "head_dim": rng.choice([4, 8, 12]),
                                "attention_bias": rng.random() < 0.5,
                                "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 1.0,
                                                    "alpha": rng.choice([1.5, 1000.0])}}


def hunyuan_moe(rng):
    count = rng.randint(3, 8)
    return "hunyuan_v1_moe", {**common(rng), "num_hidden_layers": rng.randint(1, 3), "head_dim": rng.choice([4, 8, 12]),
                              "num_experts": count, "moe_topk": rng.randint(1, min(count - 1, 3)),
                              "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}


def muse_glimmer(rng):
    fields = {**common(rng), "model_type": "muse_glimmer_text", "head_dim": rng.choice([4, 8, 12]),
              "num_hidden_layers": rng.randint(2, 6), "sliding_window": rng.randint(2, 40),
              "output_multiplier": rng.choice([0.8, 1.3]), "tie_word_embeddings": False}
    return "muse_glimmer", {"text_config": fields, "vision_config": family.MUSE_VISION, "out_hidden_size": 8,
                            "projector_hidden_size": 8}


def llama4(rng):
    layers = rng.randint(2, 5)
    rotates = [rng.randint(0, 1) for _ in range(layers - 1)] + [1]
    fields = {**common(rng), "model_type": "llama4_text", "num_hidden_layers": layers, "no_rope_layers": rotates,
              "head_dim": rng.choice([4, 8, 12]), "attention_chunk_size": rng.choice([32, 64, 96]),
              "interleave_moe_layer_step": rng.randint(1, 2), "num_local_experts": rng.randint(2, 8), "num_experts_per_tok": 1,
              "intermediate_size": rng.randint(8, 40), "intermediate_size_mlp": rng.randint(20, 90),
              "use_qk_norm": rng.random() < 0.7, "attn_temperature_tuning": rng.random() < 0.7, "attn_scale": rng.choice([0.1, 0.4]),
              "floor_scale": rng.randint(5, 50), "attention_bias": rng.random() < 0.3}
    return "llama4", {"text_config": fields, "vision_config": family.LLAMA4_VISION}


def minimax_m3(rng):
    fields = {**common(rng), "model_type": "minimax_m3_vl_text", "num_hidden_layers": rng.randint(2, 4)}
    layers, count = fields["num_hidden_layers"], rng.randint(3, 8)
    head_dim, factor = rng.choice([8, 12, 16]), rng.choice([0.5, 1.0])
    fields |= {"layer_types": ["minimax_m3_sparse"] + [rng.choice(["minimax_m3_sparse", "full_attention"]) for _ in range(layers - 1)],
               "mlp_layer_types": [rng.choice(["dense", "sparse"]) for _ in range(layers - 1)] + ["sparse"],
               "num_local_experts": count, "num_experts_per_tok": rng.randint(1, min(count - 1, 4)), "head_dim": head_dim,
               "intermediate_size": rng.randint(8, 40), "dense_intermediate_size": rng.randint(20, 90),
               "shared_intermediate_size": rng.randint(8, 40), "routed_scaling_factor": rng.choice([1.0, 2.0]),
               "index_n_heads": fields["num_key_value_heads"], "index_head_dim": head_dim + 2 * rng.randint(0, 3),
               "index_block_size": rng.choice([16, 32, 48]), "index_topk_blocks": rng.randint(2, 4),
               "index_local_blocks": rng.randint(1, 2), "tie_word_embeddings": False,
               "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": factor}}
    return "minimax_m3_vl", {"text_config": fields, "vision_config": family.M3_VISION, "projector_hidden_size": 8}


def vision_text(rng, section):
    """Of a text model whose rotation has three sections."""
    head_dim = 2 * sum(section)
    fields = {**common(rng), "num_hidden_layers": rng.randint(1, 3), "head_dim": head_dim, "tie_word_embeddings": False,
              "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": section}}
    fields["hidden_size"] = fields["num_attention_heads"] * head_dim
    return fields, {**family.QWEN_VISION, "out_hidden_size": fields["hidden_size"]}


def qwen25_vl(rng):
    fields, vision = vision_text(rng, rng.choice([[1, 1, 2], [2, 3, 3]]))
    return "qwen2_5_vl", {"text_config": fields, "vision_config": vision}


def qwen3_vl(rng):
    fields, vision = vision_text(rng, rng.choice([[2, 1, 1], [3, 2, 3]]))
    return "qwen3_vl", {"text_config": fields, "vision_config": vision}


def qwen3_vl_moe(rng):
    fields, vision = vision_text(rng, rng.choice([[2, 1, 1], [3, 2, 3]]))
    return "qwen3_vl_moe", {"text_config": {**fields, **experts(rng)}, "vision_config": vision}


def glm4v_moe(rng):
    fields, _ = vision_text(rng, [2, 1, 1])
    fields["rope_parameters"] |= {"partial_rotary_factor": 0.5, "mrope_section": [1, 1, 0]}
    return "glm4v_moe", {"text_config": {**fields, **deepseek_experts(rng), "first_k_dense_replace": rng.randint(0, 1)},
                         "vision_config": {**family.GLM_VISION, "out_hidden_size": fields["hidden_size"]}}


def mellum(rng):
    kinds = sliding_and_full(rng)
    return "mellum", {**common(rng), **experts(rng), "num_hidden_layers": len(kinds), "layer_types": kinds, "head_dim": rng.choice([4, 8, 12]),
                      "mlp_layer_types": [rng.choice(["dense", "sparse"]) for _ in kinds[1:]] + ["sparse"],
                      "norm_topk_prob": rng.random() < 0.7, "sliding_window": rng.randint(2, 40), "rope_parameters": family.MELLUM_ROPE}


def step(rng):
    kv_heads = rng.choice([1, 2, 3])
    kinds = sliding_and_full(rng)
    limits = lambda: [rng.choice([None, 0.0, 0.5, 1.0]) for _ in kinds]
    rope = {"full_attention": {"rope_type": "default", "rope_theta": 5e4, "partial_rotary_factor": rng.choice([0.5, 1.0])},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": rng.choice([0.5, 1.0])}}
    fields = {"model_type": "step3p5", "hidden_size": rng.choice([24, 40]), "intermediate_size": rng.randint(20, 90),
              "num_attention_heads": kv_heads * rng.choice([1, 2]), "num_key_value_heads": kv_heads,
              "num_sliding_attention_heads": kv_heads * rng.choice([1, 2, 3]), "num_hidden_layers": len(kinds), "layer_types": kinds,
              "head_dim": rng.choice([8, 12, 16]), "sliding_window": rng.randint(2, 40), "n_routed_experts": rng.randint(4, 9),
              "num_experts_per_tok": rng.randint(1, 3), "moe_intermediate_size": rng.randint(8, 40),
              "share_expert_dim": rng.randint(8, 40), "moe_router_scaling_factor": rng.choice([1.0, 3.0]),
              "mlp_layer_types": [rng.choice(["dense", "sparse"]) for _ in kinds[1:]] + ["sparse"], "swiglu_limits": limits(),
              "swiglu_limits_shared": limits(), "rms_norm_eps": rng.choice([1e-5, 1e-3]), "rope_parameters": rope}
    return "step3p7", {"text_config": fields, "vision_config": family.STEP_VISION}


def mimo_v2(rng):
    kv_heads = rng.choice([1, 2])
    kinds = sliding_and_full(rng)
    rope = {kind: {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": 0.5}
            for kind, theta in (("full_attention", 5e4), ("sliding_attention", 1e4))}
    return "mimo_v2_flash", {"num_attention_heads": 2 * kv_heads * rng.choice([1, 2]), "num_key_value_heads": kv_heads,
                             "hidden_size": rng.choice([24, 40]), "intermediate_size": rng.randint(20, 90), "num_hidden_layers": len(kinds),
                             "layer_types": kinds, "head_dim": rng.choice([8, 12, 16]), "v_head_dim": rng.randint(2, 8),
                             "sliding_window": rng.randint(2, 40), "attention_value_scale": rng.choice([None, 0.707, 1.3]),
                             "n_routed_experts": 6, "num_experts_per_tok": rng.randint(1, 3), "moe_intermediate_size": rng.randint(8, 40),
                             "n_group": rng.choice([1, 2, 3]), "topk_group": 1, "mlp_layer_types": None, "rope_parameters": rope}


SHAPES = {shape.__name__: shape for shape in (
    olmo_hybrid,
    gemma4, gemma4_e, gemma4_moe, lfm2, lfm2_moe, lfm3, qwen35, qwen35_moe, qwen3_next, kimi_linear, bailing_hybrid, falcon_h1, bamba, mamba2,
    granite_h, nemotron_h, afmoe, ernie45_moe, deepseek_v32, glm_moe_dsa, mistral4, hunyuan, hunyuan_moe, muse_glimmer, llama4, mimo_v2,
    minimax_m3, qwen25_vl, qwen3_vl, qwen3_vl_moe, glm4v_moe, mellum, step)}
