// Tiny model directories of each architecture, for tests to write, bend and load.
#pragma once

#include <string>
#include <vector>

#include "tests/engine/base/temp_directory.h"
#include "tests/engine/model/safetensors_writer.h"

namespace dunlin::engine {

// 2 layers, hidden 6, 2 heads of 3, ffn 10, vocabulary 7, context 5; tied.
inline constexpr const char* kGpt2Config =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 6, "n_head": 2, "n_positions": 5, "vocab_size": 7, "n_inner": 10})";
std::vector<TestTensor> Gpt2Tensors(const std::string& prefix, const std::string& dtype = "F32");

// The same sizes in nanoGPT's words, without biases.
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

// Writes config.json and model.safetensors.
void WriteModel(const TempDirectory& directory, const std::string& config, const std::vector<TestTensor>& tensors);

// kLlamaConfig or kGpt2Config with one field set, added or (value "") removed.
std::string WithField(const std::string& config, const std::string& field, const std::string& value);

}  // namespace dunlin::engine
