// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/named_shapes.h"

namespace dunlin::engine {
namespace {

constexpr NamedShape kNamedShapes[] = {
    {"gpt2-124m", R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024,
                      "vocab_size": 50257, "eos_token_id": 50256, "bos_token_id": 50256})"},
    {"gpt2-xl", R"({"model_type": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25, "n_positions": 1024,
                    "vocab_size": 50257, "eos_token_id": 50256, "bos_token_id": 50256})"},
    // Llama-3.2-1B
    {"llama-1b", R"({"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192,
                     "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
                     "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
                     "rope_theta": 500000.0,
                     "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                                      "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
                     "eos_token_id": 128001, "bos_token_id": 128000})"},
    // Llama-3.1-8B
    {"llama-8b", R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
                     "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
                     "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
                     "rope_theta": 500000.0,
                     "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                      "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
                     "eos_token_id": 128001, "bos_token_id": 128000})"},
    // Qwen3-0.6B
    {"qwen3-0.6b", R"({"model_type": "qwen3", "num_hidden_layers": 28, "hidden_size": 1024, "intermediate_size": 3072,
                       "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
                       "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
                       "rope_theta": 1000000.0, "eos_token_id": 151645, "bos_token_id": 151643})"},
    // Mistral-7B-v0.1, with sliding windows
    {"mistral-7b", R"({"model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096,
                       "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
                       "vocab_size": 32000, "max_position_embeddings": 32768, "rms_norm_eps": 1e-5,
                       "tie_word_embeddings": false, "sliding_window": 4096, "rope_theta": 10000.0,
                       "eos_token_id": 2, "bos_token_id": 1})"},
    // Qwen3-30B-A3B, 8 of its 48 layers: 11 GB in BF16
    {"qwen3-30b-a3b-8l", R"({"model_type": "qwen3_moe", "num_hidden_layers": 8, "hidden_size": 2048,
                             "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
                             "num_experts_per_tok": 8, "norm_topk_prob": true, "num_attention_heads": 32,
                             "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
                             "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
                             "rope_theta": 1000000.0, "eos_token_id": 151645, "bos_token_id": 151643})"},
    // DeepSeek-V2-Lite, 4 of its 27 layers, of which the first is dense: 4.5 GB in BF16
    {"deepseek-v2-lite-4l", R"({"model_type": "deepseek_v2", "num_hidden_layers": 4, "hidden_size": 2048,
                                "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_attention_heads": 16,
                                "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
                                "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64,
                                "num_experts_per_tok": 6, "n_shared_experts": 2, "first_k_dense_replace": 1,
                                "topk_method": "greedy", "vocab_size": 102400, "max_position_embeddings": 163840,
                                "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": false,
                                "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1,
                                                 "mscale": 0.707, "mscale_all_dim": 0.707,
                                                 "original_max_position_embeddings": 4096},
                                "eos_token_id": 100001, "bos_token_id": 100000})"},
};

}  // namespace

std::span<const NamedShape> NamedShapes() {
  return kNamedShapes;
}

const NamedShape* FindNamedShape(std::string_view name) {
  for (const NamedShape& shape : kNamedShapes) {
    if (name == shape.name) return &shape;
  }
  return nullptr;
}

}  // namespace dunlin::engine
