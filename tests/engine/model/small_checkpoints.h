// SPDX-License-Identifier: Apache-2.0
// Tiny model directories of each architecture, for tests to write, corrupt and load.
#pragma once

#include <string>
#include <vector>

#include "engine/model/spec/model_config.h"
#include "tests/engine/base/temp_directory.h"
#include "tests/engine/model/safetensors_writer.h"

namespace dunlin::engine {

// 2 layers, hidden 6, 2 heads of 3, ffn 10, vocabulary 7, context 5; tied.
inline constexpr const char* kGpt2Config =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 6, "n_head": 2, "n_positions": 5, "vocab_size": 7, "n_inner": 10})";
std::vector<TestTensor> Gpt2Tensors(const std::string& prefix, const std::string& dtype = "F32");

// The same sizes in nanoGPT's config fields, without biases.
inline constexpr const char* kNanoGptConfig =
    R"({"n_layer": 2, "n_embd": 6, "n_head": 2, "block_size": 5, "vocab_size": 7, "bias": false})";
std::vector<TestTensor> NanoGptTensors();

// 2 layers, hidden 6, 4 heads of 4 on 2 KV heads, ffn 10, vocabulary 9; untied, all biases.
inline constexpr const char* kLlamaConfig =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 6, "intermediate_size": 10,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 9,
        "max_position_embeddings": 32, "attention_bias": true, "mlp_bias": true})";
std::vector<TestTensor> LlamaTensors();

// 2 layers, hidden 6, 2 heads of 3, ffn 10, vocabulary 9, 8 positions, 2 token types; with a pooler.
inline constexpr const char* kBertConfig =
    R"({"model_type": "bert", "num_hidden_layers": 2, "hidden_size": 6, "intermediate_size": 10,
        "num_attention_heads": 2, "vocab_size": 9, "max_position_embeddings": 8})";
// norm_weight and norm_bias: "weight" and "bias", or "gamma" and "beta" as converted TensorFlow checkpoints have them.
std::vector<TestTensor> BertTensors(const std::string& prefix, const std::string& norm_weight = "weight",
                                    const std::string& norm_bias = "bias");

// 2 layers, hidden 24, 2 heads of 12 of which 6 dimensions rotate, ffn 10, vocabulary 9.
inline constexpr const char* kGptNeoXConfig =
    R"({"model_type": "gpt_neox", "num_hidden_layers": 2, "hidden_size": 24, "intermediate_size": 10,
        "num_attention_heads": 2, "vocab_size": 9, "max_position_embeddings": 32, "rotary_pct": 0.5})";
inline constexpr const char* kPhiConfig =
    R"({"model_type": "phi", "num_hidden_layers": 2, "hidden_size": 24, "intermediate_size": 10,
        "num_attention_heads": 2, "vocab_size": 9, "max_position_embeddings": 32})";
// 3 layers, hidden 6, 4 heads of 4 on 2 KV heads, ffn 10, vocabulary 9; another model_type makes it another family.
inline constexpr const char* kQwen2Config =
    R"({"model_type": "qwen2", "num_hidden_layers": 3, "hidden_size": 6, "intermediate_size": 10,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 9,
        "max_position_embeddings": 32})";

// Of one layer of the Llama family, hidden 6, 4 heads of 4 on 2 KV heads, ffn 10, vocabulary 9; untied. head: what
// precedes the name of the head.
std::vector<TestTensor> MistralTensors(const std::string& prefix, const std::string& head);
inline constexpr const char* kMistralConfig =
    R"({"model_type": "mistral", "num_hidden_layers": 3, "hidden_size": 6, "intermediate_size": 10,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 9,
        "max_position_embeddings": 32, "sliding_window": 20})";
inline constexpr const char* kGemma2Config =
    R"({"model_type": "gemma2", "num_hidden_layers": 3, "hidden_size": 6, "intermediate_size": 10,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 9,
        "max_position_embeddings": 32, "sliding_window": 20, "query_pre_attn_scalar": 16})";

// Writes config.json and model.safetensors.
void WriteModel(const TempDirectory& directory, const std::string& config, const std::vector<TestTensor>& tensors);

// kLlamaConfig or kGpt2Config with one field set, added or (value "") removed.
std::string WithField(const std::string& config, const std::string& field, const std::string& value);

// What ParseModelConfig makes of it; one that it refuses fails the test.
ModelConfig ParsedConfig(const std::string& config);

// A field that ParseModelConfig refuses.
struct BadField {
  const char* config;
  const char* field;
  const char* value;    // "" removes the field
  const char* message;  // what the error says of it
};
// The config with that field is an INVALID_ARGUMENT of config.json with that message.
void ExpectRefused(const BadField& bad);

}  // namespace dunlin::engine
