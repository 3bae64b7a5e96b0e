// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/model/small_checkpoints.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/model/load/model_directory.h"

namespace dunlin::engine {

std::vector<TestTensor> Gpt2Tensors(const std::string& prefix, const std::string& dtype) {
  std::vector<TestTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    tensors.push_back({.name = prefix + name, .shape = std::move(shape), .dtype = dtype});
  };
  add("wte.weight", {7, 6});
  add("wpe.weight", {5, 6});
  for (const std::string layer : {"h.0.", "h.1."}) {
    add(layer + "ln_1.weight", {6});
    add(layer + "ln_1.bias", {6});
    add(layer + "attn.c_attn.weight", {6, 18});
    add(layer + "attn.c_attn.bias", {18});
    add(layer + "attn.c_proj.weight", {6, 6});
    add(layer + "attn.c_proj.bias", {6});
    add(layer + "ln_2.weight", {6});
    add(layer + "ln_2.bias", {6});
    add(layer + "mlp.c_fc.weight", {6, 10});
    add(layer + "mlp.c_fc.bias", {10});
    add(layer + "mlp.c_proj.weight", {10, 6});
    add(layer + "mlp.c_proj.bias", {6});
    tensors.push_back({.name = prefix + layer + "attn.bias", .shape = {1, 1, 5, 5}, .dtype = "BOOL"});
  }
  add("ln_f.weight", {6});
  add("ln_f.bias", {6});
  return tensors;
}

std::vector<TestTensor> NanoGptTensors() {
  std::vector<TestTensor> tensors = {{.name = "transformer.wte.weight", .shape = {7, 6}},
                                     {.name = "transformer.wpe.weight", .shape = {5, 6}},
                                     {.name = "transformer.ln_f.weight", .shape = {6}}};
  for (const std::string layer : {"transformer.h.0.", "transformer.h.1."}) {
    tensors.push_back({.name = layer + "ln_1.weight", .shape = {6}});
    tensors.push_back({.name = layer + "attn.c_attn.weight", .shape = {18, 6}});
    tensors.push_back({.name = layer + "attn.c_proj.weight", .shape = {6, 6}});
    tensors.push_back({.name = layer + "ln_2.weight", .shape = {6}});
    tensors.push_back({.name = layer + "mlp.c_fc.weight", .shape = {24, 6}});
    tensors.push_back({.name = layer + "mlp.c_proj.weight", .shape = {6, 24}});
  }
  return tensors;
}

std::vector<TestTensor> LlamaTensors() {
  std::vector<TestTensor> tensors = {{.name = "model.embed_tokens.weight", .shape = {9, 6}},
                                     {.name = "model.norm.weight", .shape = {6}},
                                     {.name = "lm_head.weight", .shape = {9, 6}}};
  const auto linear = [&](const std::string& name, int64_t rows, int64_t columns) {
    tensors.push_back({.name = name + ".weight", .shape = {rows, columns}});
    tensors.push_back({.name = name + ".bias", .shape = {rows}});
  };
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    tensors.push_back({.name = layer + "input_layernorm.weight", .shape = {6}});
    tensors.push_back({.name = layer + "post_attention_layernorm.weight", .shape = {6}});
    linear(layer + "self_attn.q_proj", 16, 6);
    linear(layer + "self_attn.k_proj", 8, 6);
    linear(layer + "self_attn.v_proj", 8, 6);
    linear(layer + "self_attn.o_proj", 6, 16);
    linear(layer + "mlp.gate_proj", 10, 6);
    linear(layer + "mlp.up_proj", 10, 6);
    linear(layer + "mlp.down_proj", 6, 10);
  }
  return tensors;
}

std::vector<TestTensor> BertTensors(const std::string& prefix, const std::string& norm_weight,
                                    const std::string& norm_bias) {
  std::vector<TestTensor> tensors = {{.name = prefix + "embeddings.word_embeddings.weight", .shape = {9, 6}},
                                     {.name = prefix + "embeddings.position_embeddings.weight", .shape = {8, 6}},
                                     {.name = prefix + "embeddings.token_type_embeddings.weight", .shape = {2, 6}},
                                     {.name = prefix + "embeddings.position_ids", .shape = {1, 8}, .dtype = "I64"}};
  const auto linear = [&](const std::string& name, int64_t rows, int64_t columns) {
    tensors.push_back({.name = prefix + name + ".weight", .shape = {rows, columns}});
    tensors.push_back({.name = prefix + name + ".bias", .shape = {rows}});
  };
  const auto norm = [&](const std::string& name) {
    tensors.push_back({.name = prefix + name + ".LayerNorm." + norm_weight, .shape = {6}});
    tensors.push_back({.name = prefix + name + ".LayerNorm." + norm_bias, .shape = {6}});
  };
  norm("embeddings");
  for (const std::string layer : {"encoder.layer.0.", "encoder.layer.1."}) {
    for (const std::string name : {"query", "key", "value"}) linear(layer + "attention.self." + name, 6, 6);
    linear(layer + "attention.output.dense", 6, 6);
    norm(layer + "attention.output");
    linear(layer + "intermediate.dense", 10, 6);
    linear(layer + "output.dense", 6, 10);
    norm(layer + "output");
  }
  linear("pooler.dense", 6, 6);
  return tensors;
}

std::vector<TestTensor> MistralTensors(const std::string& prefix, const std::string& head) {
  const std::string layer = prefix + "layers.0.";
  return {{prefix + "embed_tokens.weight", {9, 6}},
          {prefix + "norm.weight", {6}},
          {head + "lm_head.weight", {9, 6}},
          {layer + "input_layernorm.weight", {6}},
          {layer + "post_attention_layernorm.weight", {6}},
          {layer + "self_attn.q_proj.weight", {16, 6}},
          {layer + "self_attn.k_proj.weight", {8, 6}},
          {layer + "self_attn.v_proj.weight", {8, 6}},
          {layer + "self_attn.o_proj.weight", {6, 16}},
          {layer + "mlp.gate_proj.weight", {10, 6}},
          {layer + "mlp.up_proj.weight", {10, 6}},
          {layer + "mlp.down_proj.weight", {6, 10}}};
}

void WriteModel(const TempDirectory& directory, const std::string& config, const std::vector<TestTensor>& tensors) {
  directory.Write("config.json", config);
  directory.Write("model.safetensors", SafetensorsBytes(tensors));
}

std::string WithField(const std::string& config, const std::string& field, const std::string& value) {
  nlohmann::json object = nlohmann::json::parse(config);
  object.erase(field);
  std::string text = object.dump();
  if (!value.empty()) text.insert(1, "\"" + field + "\": " + value + (object.empty() ? "" : ", "));
  return text;
}

ModelConfig ParsedConfig(const std::string& config) {
  absl::StatusOr<ParsedModel> parsed = ParseModelConfig(config, "");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->config : ModelConfig();
}

void ExpectRefused(const BadField& bad) {
  const std::string config = WithField(bad.config, bad.field, bad.value);
  const absl::Status status = ParseModelConfig(config, "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << config;
  for (const char* words : {"config.json: ", bad.message}) {
    EXPECT_NE(status.message().find(words), absl::string_view::npos)
        << config << ": " << status << "; expected: " << words;
  }
}

}  // namespace dunlin::engine
