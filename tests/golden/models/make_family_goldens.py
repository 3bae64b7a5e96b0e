# SPDX-License-Identifier: Apache-2.0
"""Makes goldens of decoder families from transformers alone: tiny seeded checkpoints, written by transformers itself, their
logits and greedy continuations.

Each row of FAMILIES is a folder beside this script, as make_goldens.py describes it. The oracle is transformers in
float32; its logits are checked against the same modules in float64, and no choice of an expert or of a group of experts
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

HERE = pathlib.Path(__file__).resolve().parent
VOCAB = 61
MIN_CHOICE_MARGIN = 1e-4  # of scores between 0 and 1; rounding moves them by 1e-6
COMMON = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 160, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.25, 1.5], "long_factor": [1.0, 3.0, 9.0],
            "original_max_position_embeddings": 144, "partial_rotary_factor": 0.75}
GEMMA3_ROPE = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
               "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
OLMO3_ROPE = {"full_attention": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 40,
                                 "rope_theta": 500000.0},
              "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}}
GPT_OSS_ROPE = {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 4.0, "original_max_position_embeddings": 40,
                "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
DEEPSEEK2_ROPE = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 40,
                  "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 0.707, "mscale_all_dim": 0.707}
DEEPSEEK3_ROPE = {**DEEPSEEK2_ROPE, "mscale": 1.0, "mscale_all_dim": 0.8}
DEEPSEEK4_ROPE = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 40, "beta_fast": 32.0,
                  "beta_slow": 1.0}
LATENT = {"kv_lora_rank": 20, "qk_nope_head_dim": 10, "qk_rope_head_dim": 6, "v_head_dim": 14, "num_key_value_heads": 4,
          "moe_intermediate_size": 20, "first_k_dense_replace": 1, "num_hidden_layers": 3}
LFM3_ROPE = {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
             "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
# So many heads that no two keys have a score of 0 where that decides.
INDEXER = {"index_n_heads": 16, "index_head_dim": 8, "index_topk": 5}
MINISTRAL3_ROPE = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 8.0, "original_max_position_embeddings": 20,
                   "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}
LLAMA4_ROPE = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
               "original_max_position_embeddings": 40}
MIMO_ROPE = {"full_attention": {"rope_type": "default", "rope_theta": 5e4, "partial_rotary_factor": 0.334},
             "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.334}}
STEP_ROPE = {"full_attention": {"rope_type": "llama3", "rope_theta": 5e4, "partial_rotary_factor": 0.5, "factor": 2.0,
                                "low_freq_factor": 1.0, "high_freq_factor": 32.0, "original_max_position_embeddings": 40},
             "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}}
APERTUS_ROPE = {"rope_type": "llama3", "rope_theta": 5e4, "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 32.0,
                "original_max_position_embeddings": 40}
PHIMOE_ROPE = {"rope_type": "default", "rope_theta": 1e4}
STEP_VISION = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "patch_size": 2, "image_size": 4}
KIMI_VISION = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "patch_size": 2,
               "pos_emb_height": 2, "pos_emb_width": 2, "pos_emb_time": 1}
PIXTRAL_VISION = {"model_type": "pixtral", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
                  "num_attention_heads": 1, "head_dim": 8, "patch_size": 2, "image_size": 4}
MUSE_VISION = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "patch_size": 2,
               "pos_emb_height": 2, "pos_emb_width": 2}
LLAMA4_VISION = {"hidden_size": 8, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1, "patch_size": 2,
                 "image_size": 4, "vision_output_dim": 8, "projector_input_dim": 8, "projector_output_dim": 8}
LATENT_SIZES = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
# Two value heads on each key head, of another size; a rotation of 8 of 32 dimensions in three sections.
GEMMA4 = {"head_dim": 16, "global_head_dim": 32, "sliding_window": 8, "final_logit_softcapping": 30.0,
          "layer_types": ["sliding_attention", "full_attention"] * 2, "num_hidden_layers": 4}
DELTA = {"num_hidden_layers": 4, "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
         "linear_value_head_dim": 12, "linear_conv_kernel_dim": 4}
QWEN35_ROPE = {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1],
               "mrope_interleaved": True}
SHORT_CONV = {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention", "conv", "conv"], "norm_eps": 1e-5}
# Heads that share the B and C of a group; one attention layer without positions.
GRANITE_H = {"mamba_n_heads": 6, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 8, "mamba_expand": 3, "mamba_d_conv": 4,
             "num_hidden_layers": 4, "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
             "shared_intermediate_size": 40, "embedding_multiplier": 3.0, "attention_multiplier": 0.4,
             "residual_multiplier": 0.8, "logits_scaling": 0.8}
# Attention and Mamba2 in every layer, with a factor of each product.
FALCON_H1 = {"mamba_d_ssm": 48, "mamba_n_heads": 6, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 8, "head_dim": 12,
             "embedding_multiplier": 1.4, "lm_head_multiplier": 0.8, "attention_in_multiplier": 0.9, "key_multiplier": 0.7,
             "attention_out_multiplier": 0.8, "ssm_in_multiplier": 1.2, "ssm_multipliers": [0.9, 1.1, 0.8, 1.2, 0.7],
             "ssm_out_multiplier": 0.6, "mlp_multipliers": [0.9, 0.7]}
# Folder -> model_type, fields beside COMMON.
FAMILIES = {
    "gemma_tiny": ("gemma", {"head_dim": 12}),
    "gemma3_tiny": ("gemma3_text", {"head_dim": 12, "num_hidden_layers": 3, "sliding_window": 20, "query_pre_attn_scalar": 10,
                                    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
                                    "rope_parameters": GEMMA3_ROPE}),
    "phi3_tiny": ("phi3", {"sliding_window": 24}),
    "phi3_longrope": ("phi3", {"original_max_position_embeddings": 144, "rope_parameters": LONGROPE}),
    "starcoder2_tiny": ("starcoder2", {"sliding_window": 24}),
    "stablelm_tiny": ("stablelm", {"use_qkv_bias": True}),
    "stablelm_parallel": ("stablelm", {"use_parallel_residual": True, "num_key_value_heads": 4}),
    "granite_tiny": ("granite", {"embedding_multiplier": 3.0, "attention_multiplier": 0.4, "residual_multiplier": 0.8,
                                 "logits_scaling": 0.8, "tie_word_embeddings": True, "attention_bias": True}),
    "seed_oss_tiny": ("seed_oss", {"head_dim": 12, "attention_out_bias": True}),
    "ernie45_tiny": ("ernie4_5", {"head_dim": 12, "use_bias": True}),
    "smollm3_tiny": ("smollm3", {"num_hidden_layers": 4, "no_rope_layer_interval": 2}),
    "cohere_tiny": ("cohere", {"logit_scale": 0.4}),
    "cohere2_tiny": ("cohere2", {"logit_scale": 0.4, "num_hidden_layers": 4, "sliding_window": 24}),
    "glm_tiny": ("glm", {"head_dim": 16}),
    "glm4_tiny": ("glm4", {"head_dim": 16}),
    "exaone4_tiny": ("exaone4", {"num_hidden_layers": 4, "sliding_window": 24, "sliding_window_pattern": 4}),
    "olmo2_tiny": ("olmo2", {"attention_bias": True}),
    "olmo3_tiny": ("olmo3", {"num_hidden_layers": 4, "sliding_window": 24, "rope_parameters": OLMO3_ROPE}),
    "nemotron_tiny": ("nemotron", {"head_dim": 12, "attention_bias": True, "mlp_bias": True}),
    "falcon_7b": ("falcon", {"multi_query": True, "num_attention_heads": 3, "hidden_size": 36, "ffn_hidden_size": 56}),
    "falcon_new": ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True}),
    "falcon_11b": ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1}),
    "falcon_sequential": ("falcon", {"parallel_attn": False, "multi_query": False, "bias": True}),
    "falcon_alibi": ("falcon", {"alibi": True, "parallel_attn": False, "multi_query": False, "bias": True,
                                "num_attention_heads": 10, "hidden_size": 40, "ffn_hidden_size": 56}),
    "bloom_tiny": ("bloom", {}),
    "bloom_heads": ("bloom", {"num_attention_heads": 6, "hidden_size": 36}),
    "mixtral_tiny": ("mixtral", {"num_local_experts": 6, "num_experts_per_tok": 2, "sliding_window": 40}),
    "qwen2_moe_tiny": ("qwen2_moe", {"num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 20,
                                     "shared_expert_intermediate_size": 28, "num_hidden_layers": 4,
                                     "mlp_only_layers": [1], "use_sliding_window": True, "sliding_window": 24,
                                     "max_window_layers": 3}),
    "qwen3_moe_tiny": ("qwen3_moe", {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 20,
                                     "head_dim": 12, "norm_topk_prob": True, "num_hidden_layers": 3,
                                     "decoder_sparse_step": 2}),
    "granitemoe_tiny": ("granitemoe", {"num_local_experts": 6, "num_experts_per_tok": 3, "embedding_multiplier": 3.0,
                                       "attention_multiplier": 0.4, "residual_multiplier": 0.8, "logits_scaling": 0.8}),
    "gpt_oss_tiny": ("gpt_oss", {"num_local_experts": 5, "num_experts_per_tok": 3, "head_dim": 12, "num_hidden_layers": 3,
                                 "sliding_window": 24, "rope_parameters": GPT_OSS_ROPE}),
    "glm4_moe_tiny": ("glm4_moe", {"n_routed_experts": 12, "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2,
                                   "moe_intermediate_size": 20, "n_shared_experts": 2, "num_hidden_layers": 3,
                                   "routed_scaling_factor": 1.5, "use_qk_norm": True, "attention_bias": True,
                                   "head_dim": 8}),
    "gpt_oss_mxfp4": ("gpt_oss", {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 12, "sliding_window": 24,
                                  "intermediate_size": 64, "rope_parameters": GPT_OSS_ROPE}),
    "deepseek_v2_tiny": ("deepseek_v2", {**LATENT, "q_lora_rank": None, "n_routed_experts": 6, "num_experts_per_tok": 2,
                                         "topk_method": "group_limited_greedy", "n_group": 3, "topk_group": 2,
                                         "routed_scaling_factor": 2.0, "rope_parameters": DEEPSEEK2_ROPE}),
    "deepseek_v3_tiny": ("deepseek_v3", {**LATENT, "q_lora_rank": 22, "n_routed_experts": 8, "num_experts_per_tok": 3,
                                         "n_group": 4, "topk_group": 2, "attention_bias": True,
                                         "rope_parameters": DEEPSEEK3_ROPE}),
    "glm4_moe_lite_tiny": ("glm4_moe_lite", {**LATENT, "first_k_dense_replace": None, "q_lora_rank": 22,
                                             "n_routed_experts": 8, "num_experts_per_tok": 3,
                                             "mlp_layer_types": ["dense", "dense", "sparse"],
                                             "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}),
    "kimi_k25_tiny": ("kimi_k25", {"text_config": {**LATENT, "model_type": "deepseek_v3", "q_lora_rank": 22,
                                                   "num_hidden_layers": 2, "n_routed_experts": 8, "num_experts_per_tok": 3,
                                                   "n_group": 1, "topk_group": 1, "rope_parameters": DEEPSEEK3_ROPE},
                                   "vision_config": KIMI_VISION, "projection_hidden_size": 8}),
    "minimax_m2_tiny": ("minimax_m2", {"num_local_experts": 8, "num_experts_per_tok": 3, "intermediate_size": 20,
                                       "head_dim": 12, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4,
                                                                           "partial_rotary_factor": 0.5}}),
    "ministral3_tiny": ("mistral3", {"text_config": {"model_type": "ministral3", "head_dim": 12,
                                                     "rope_parameters": MINISTRAL3_ROPE},
                                     "vision_config": PIXTRAL_VISION}),
    "arcee_tiny": ("arcee", {"head_dim": 12, "attention_bias": True, "mlp_bias": True}),
    "hy_v3_tiny": ("hy_v3", {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 20, "head_dim": 12,
                             "num_shared_experts": 2, "router_scaling_factor": 1.7}),
    "solar_open_tiny": ("solar_open", {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 20,
                                       "head_dim": 12, "intermediate_size": None, "attention_bias": True,
                                       "routed_scaling_factor": 1.2}),
    "dots1_tiny": ("dots1", {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 20, "head_dim": 12,
                             "n_shared_experts": 2, "first_k_dense_replace": 1, "norm_topk_prob": True,
                             "routed_scaling_factor": 1.5, "sliding_window": 24, "max_window_layers": 1}),
    "exaone_moe_tiny": ("exaone_moe", {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 20,
                                       "head_dim": 12, "num_hidden_layers": 3, "sliding_window": 24,
                                       "sliding_window_pattern": 3}),
    "youtu_tiny": ("youtu", {**{name: LATENT[name] for name in LATENT_SIZES}, "q_lora_rank": 22,
                             "num_key_value_heads": 4, "tie_word_embeddings": True,
                             "pad_token_id": None}),  # whose row transformers would set to 0
    "qwen35_tiny": ("qwen3_5_text", {**DELTA, "rope_parameters": QWEN35_ROPE, "tie_word_embeddings": True}),
    "qwen35moe_tiny": ("qwen3_5_moe_text", {**DELTA, "rms_norm_eps": 0.01, "rope_parameters": QWEN35_ROPE, "num_experts": 6,
                                            "num_experts_per_tok": 2, "moe_intermediate_size": 20,
                                            "shared_expert_intermediate_size": 40}),
    "qwen3next_tiny": ("qwen3_next", {**DELTA, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
                                      "shared_expert_intermediate_size": 28, "mlp_only_layers": [1],
                                      "layer_types": ["linear_attention", "full_attention", "linear_attention",
                                                      "linear_attention"]}),
    # int(0.9 * int(2 * 96 / 3)) is 57, which becomes 64 of multiples of 16.
    "lfm2_tiny": ("lfm2", {**SHORT_CONV, "intermediate_size": 96, "block_multiple_of": 16, "block_ffn_dim_multiplier": 0.9,
                           "tie_word_embeddings": True}),
    "lfm2_biases": ("lfm2", {**SHORT_CONV, "num_hidden_layers": 3, "layer_types": None, "full_attn_idxs": [2], "conv_bias": True,
                             "conv_L_cache": 5, "block_auto_adjust_ff_dim": False}),
    "lfm2moe_tiny": ("lfm2_moe", {**SHORT_CONV, "num_dense_layers": 1, "num_experts": 6, "num_experts_per_tok": 2,
                                  "moe_intermediate_size": 20, "routed_scaling_factor": 1.3,
                                  "tie_word_embeddings": True}),
    "lfm3_tiny": ("lfm3", {"num_hidden_layers": 5, "head_dim": 12, "sliding_window": 24, "tie_word_embeddings": True}),
    "lfm3_biases": ("lfm3", {"num_hidden_layers": 3, "head_dim": 10, "conv_L_cache": 3, "conv_bias": True, "attention_bias": True,
                             "layer_types": ["sliding_attention", "conv", "full_attention"], "sliding_window": 8,
                             "use_sandwich_norm": False, "use_attention_gate": False, "rope_parameters": LFM3_ROPE}),
    "mistral4_tiny": ("mistral3", {"text_config": {**LATENT, "model_type": "mistral4", "q_lora_rank": 22, "num_hidden_layers": 2,
                                                   "first_k_dense_replace": 0, "n_routed_experts": 6,
                                                   "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
                                                   "n_shared_experts": 2, "rope_parameters": MINISTRAL3_ROPE},
                                   "vision_config": PIXTRAL_VISION, "spatial_merge_size": 1}),
    "hunyuan_dense_tiny": ("hunyuan_v1_dense", {"head_dim": 12, "attention_bias": True, "tie_word_embeddings": True,
                                                "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 1.0,
                                                                    "alpha": 50.0}}),
    "hunyuan_moe_tiny": ("hunyuan_v1_moe", {"head_dim": 12, "num_experts": 6, "moe_topk": 2, "intermediate_size": 28,
                                            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
    "gemma4_tiny": ("gemma4_text", {**GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 1,
                                    "hidden_size_per_layer_input": 0, "tie_word_embeddings": True}),
    "granite_h_tiny": ("granitemoehybrid", {**GRANITE_H, "num_local_experts": 4, "num_experts_per_tok": 2,
                                            "intermediate_size": 20}),
    "granite_h_dense": ("granitemoehybrid", {**GRANITE_H, "num_local_experts": 0, "mamba_n_groups": 2, "mamba_proj_bias": True,
                                             "position_embedding_type": "rope", "tie_word_embeddings": True}),
    "bamba_tiny": ("bamba", {"mamba_n_heads": 6, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_expand": 3,
                             "num_hidden_layers": 3, "attn_layer_indices": [1]}),
    "falcon_h1_tiny": ("falcon_h1", FALCON_H1),
    "falcon_h1_norm": ("falcon_h1", {**FALCON_H1, "mamba_rms_norm": True, "num_hidden_layers": 3, "tie_word_embeddings": True,
                                     "lm_head_multiplier": 1.0, "embedding_multiplier": 1.0}),
    "mamba2_tiny": ("mamba2", {"num_heads": 6, "head_dim": 16, "n_groups": 2, "state_size": 8, "expand": 3}),
    "nemotron_h_tiny": ("nemotron_h", {"mamba_num_heads": 6, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 8,
                                       "hybrid_override_pattern": "M*ME-", "head_dim": 12, "time_step_min": 1e-30,  # no clamp
                                       "n_routed_experts": 8, "num_experts_per_tok": 3, "n_group": 2, "topk_group": 1,
                                       "moe_intermediate_size": 20, "moe_shared_expert_intermediate_size": 28,
                                       "moe_latent_size": 24, "routed_scaling_factor": 1.5, "num_hidden_layers": 5}),
    "gemma4_e_tiny": ("gemma4_text", {**GEMMA4, "num_hidden_layers": 6, "num_kv_shared_layers": 2, "use_double_wide_mlp": True,
                                      "layer_types": ["sliding_attention", "full_attention"] * 3,
                                      "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCAB}),
    "gemma4_moe_tiny": ("gemma4_text", {**GEMMA4, "num_hidden_layers": 2, "layer_types": GEMMA4["layer_types"][:2],
                                        "attention_k_eq_v": True, "num_global_key_value_heads": 1,
                                        "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 6,
                                        "top_k_experts": 2, "moe_intermediate_size": 20}),
    "kimi_linear_tiny": ("kimi_linear", {**LATENT, "q_lora_rank": None, "num_local_experts": 8, "num_experts_per_tok": 3,
                                         "linear_num_heads": 3, "linear_head_dim": 12,
                                         "layer_types": ["linear_attention", "full_attention", "linear_attention"]}),
    "deepseek_v32_tiny": ("deepseek_v32", {**LATENT, **INDEXER, "q_lora_rank": 22, "num_hidden_layers": 2, "n_routed_experts": 8,
                                           "num_experts_per_tok": 3, "n_group": 2, "topk_group": 1,
                                           "rope_parameters": DEEPSEEK3_ROPE}),
    # A layer of each kind of attention, and a second one that compresses and chooses; experts by token in the first.
    "deepseek_v4_tiny": ("deepseek_v4", {"num_key_value_heads": 1, "num_hidden_layers": 4, "head_dim": 16, "q_lora_rank": 22,
                                         "partial_rotary_factor": 0.5, "o_groups": 2, "o_lora_rank": 10, "sliding_window": 6,
                                         "index_n_heads": 16, "index_head_dim": 12, "index_topk": 3,
                                         "compress_rates": {"compressed_sparse_attention": 4,
                                                            "heavily_compressed_attention": 8},
                                         "layer_types": ["sliding_attention", "compressed_sparse_attention",
                                                         "heavily_compressed_attention", "compressed_sparse_attention"],
                                         "mlp_layer_types": ["hash_moe", "moe", "moe", "moe"], "hc_mult": 3,
                                         "hc_sinkhorn_iters": 4, "n_routed_experts": 8, "num_experts_per_tok": 3,
                                         "swiglu_limit": 1.5, "rope_parameters": DEEPSEEK4_ROPE}),
    "glm_moe_dsa_tiny": ("glm_moe_dsa", {**LATENT, **INDEXER, "q_lora_rank": 22, "n_routed_experts": 8, "num_experts_per_tok": 3,
                                         "indexer_types": ["full", "full", "shared"],
                                         "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}),
    # Five layers, of which the first and the last see every token and have no positions.
    "muse_glimmer_tiny": ("muse_glimmer", {"text_config": {"model_type": "muse_glimmer_text", "head_dim": 12,
                                                           "num_hidden_layers": 5, "sliding_window": 24,
                                                           "output_multiplier": 1.3},
                                           "vision_config": MUSE_VISION, "out_hidden_size": 8, "projector_hidden_size": 8}),
    # Chunks of 32 positions, in the last layer, too; one full layer without positions; experts in every other layer.
    "llama4_tiny": ("llama4", {"text_config": {"model_type": "llama4_text", "head_dim": 12, "num_hidden_layers": 4,
                                               "attention_chunk_size": 32, "no_rope_layers": [1, 0, 1, 1],
                                               "interleave_moe_layer_step": 2, "num_local_experts": 6, "num_experts_per_tok": 1,
                                               "intermediate_size": 28, "intermediate_size_mlp": 48, "attn_scale": 0.3,
                                               "floor_scale": 16, "rope_parameters": LLAMA4_ROPE},
                               "vision_config": LLAMA4_VISION}),
    # Heads of V narrower than those of K; sliding layers with twice as many, sinks, and a rotation of their own.
    "mimo_v2_tiny": ("mimo_v2_flash", {"num_hidden_layers": 4, "head_dim": 12, "v_head_dim": 8, "num_key_value_heads": 1,
                                       "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
                                       "sliding_window": 20, "n_routed_experts": 8, "num_experts_per_tok": 3,
                                       "moe_intermediate_size": 20, "rope_parameters": MIMO_ROPE}),
    # Sliding layers with more query heads and a rotation of the whole head; limits of some layers' gates alone.
    "step_tiny": ("step3p7", {"text_config": {"model_type": "step3p5", "head_dim": 12, "num_hidden_layers": 4,
                                              "num_sliding_attention_heads": 6, "sliding_window": 20,
                                              "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                                                              "full_attention"],
                                              "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
                                              "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 20,
                                              "share_expert_dim": 28, "moe_router_scaling_factor": 1.7,
                                              "swiglu_limits": [None, None, 0.8, 0.0],
                                              "swiglu_limits_shared": [0.6, 0.0, None, 0.9], "rope_parameters": STEP_ROPE},
                              "vision_config": STEP_VISION}),
    "afmoe_tiny": ("afmoe", {"head_dim": 12, "num_hidden_layers": 4, "num_dense_layers": 1, "num_experts": 8,
                             "num_experts_per_tok": 3, "num_shared_experts": 2, "moe_intermediate_size": 20, "route_scale": 1.5,
                             "sliding_window": 24, "mup_enabled": True}),
    "ernie45_moe_tiny": ("ernie4_5_moe", {"moe_num_experts": 8, "moe_k": 3, "moe_num_shared_experts": 2,
                                          "moe_intermediate_size": 20, "num_hidden_layers": 3}),
    "olmoe_tiny": ("olmoe", {"num_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 28}),
    # Delta nets with pre-norms whose states change sign, attention with norms after the terms and without positions.
    "olmo_hybrid_tiny": ("olmo_hybrid", {"num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
                                         "linear_key_head_dim": 8, "linear_value_head_dim": 12,
                                         "rope_parameters": {"rope_type": "default", "rope_theta": None},
                                         "layer_types": ["linear_attention", "full_attention", "linear_attention",
                                                         "full_attention"]}),
    "olmo_hybrid_rotated": ("olmo_hybrid", {"num_hidden_layers": 3, "linear_num_key_heads": 4, "linear_num_value_heads": 4,
                                            "linear_key_head_dim": 12, "linear_value_head_dim": 24,
                                            "linear_allow_neg_eigval": False,
                                            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
                                            "layer_types": ["full_attention", "linear_attention", "linear_attention"]}),
    "apertus_tiny": ("apertus", {"num_hidden_layers": 3, "rope_parameters": APERTUS_ROPE}),
    # The threshold of the router's softmaxes is wide enough that they hold several experts.
    "phimoe_tiny": ("phimoe", {"num_local_experts": 6, "intermediate_size": 28, "num_hidden_layers": 3, "sliding_window": 24,
                               "router_jitter_noise": 0.3, "attention_bias": True, "lm_head_bias": True,
                               "rope_parameters": PHIMOE_ROPE}),
    "exaone4_full": ("exaone4", {"sliding_window": None, "layer_types": ["full_attention"] * 2}),
}


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
        if name.endswith(".A_log"):
            noise = 1.2 * noise - 1.0  # states that fade within a few tokens, and ones that last for hundreds
        elif name.endswith(".dt_bias"):
            noise = 0.5 * noise - 0.5
        elif name.endswith((".mamba.D", ".mixer.D")):
            noise = 0.5 + 0.5 * noise
        elif name.endswith((".in_proj_a.weight", ".in_proj_b.weight", ".in_proj_ba.weight", ".a_proj.weight", ".b_proj.weight",
                            ".f_a_proj.weight", ".g_a_proj.weight", ".self_attn.g_proj.weight")):
            noise = 1.0 / math.sqrt(value.shape[1]) * noise  # neither closed nor open: what is next to 0 is normalised
        elif model.config.model_type.startswith("qwen3_") and is_recurrent(model.config) and name.endswith("norm.weight"):
            noise = (1.0 if "linear_attn" in name else 0.0) + 0.2 * noise  # all others are 1 + w
        elif value.dim() == 1 and ("norm" in name or ".ln_" in name) and name.endswith("weight"):
            kind = model.config.model_type
            offset = offset_norms or kind == "muse_glimmer" and "layernorm" in name or kind == "step3p7"
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


def save(model, folder):
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
    if config.model_type == "kimi_linear":  # experts chosen by corrected scores
        return min(margins) >= MIN_CHOICE_MARGIN and largest <= 0.6 * make_goldens.MAX_REFERENCE_ERROR
    if not is_recurrent(config) and min(margins) < MIN_CHOICE_MARGIN:
        return False
    if is_recurrent(config) or config.model_type == "gemma4_text":
        return min(gaps, default=1.0) >= MIN_ROUTER_GAP and largest <= 0.6 * make_goldens.MAX_REFERENCE_ERROR
    return not is_mamba(config) or largest <= 5e-5


# Folders whose goldens hold the states of their recurrent layers after the second prompt.
WITH_STATES = ("qwen35_tiny", "lfm2_tiny", "kimi_linear_tiny")


def states_of(model, tokens):
    """Of each recurrent layer the rows before its convolution, the oldest first, and the heads' matrices."""
    cache = model(torch.tensor([tokens]), use_cache=True).cache
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
