// SPDX-License-Identifier: Apache-2.0
// A model, and PEFT directories for it that tests write, change and load.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_set.h"
#include "tests/engine/model/model_loading.h"
#include "tests/engine/model/safetensors_writer.h"

namespace dunlin::engine {

class AdapterFiles : public ModelLoading {
 protected:
  void SetUp() override {
    auto model = Load(kLlamaConfig, LlamaTensors());
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    auto set = AdapterSet::Create(model_.get(), {.max_adapters = 3, .max_rank = 8});
    ASSERT_TRUE(set.ok()) << set.status();
    set_ = *std::move(set);
  }

  static std::string TensorName(const std::string& module, char half) {
    return absl::StrCat("base_model.model.", module, ".lora_", std::string(1, half), ".weight");
  }
  // Both halves of a module.
  static std::vector<TestTensor> Pair(const std::string& module, int64_t rank, int64_t in_features,
                                      int64_t out_features, const std::string& dtype = "F32") {
    return {{.name = TensorName(module, 'A'), .shape = {rank, in_features}, .dtype = dtype},
            {.name = TensorName(module, 'B'), .shape = {out_features, rank}, .dtype = dtype}};
  }
  static std::vector<TestTensor> QueryAndValue(const std::string& dtype = "F32") {
    std::vector<TestTensor> tensors = Pair("model.layers.1.self_attn.q_proj", 2, 6, 16, dtype);
    for (TestTensor& tensor : Pair("model.layers.1.self_attn.v_proj", 2, 6, 8, dtype)) tensors.push_back(tensor);
    return tensors;
  }

  void Write(const std::string& config, const std::vector<TestTensor>& tensors) const {
    adapter_.Write("adapter_config.json", config);
    adapter_.Write("adapter_model.safetensors", SafetensorsBytes(tensors));
  }
  // Of a directory with these files.
  absl::StatusOr<uint64_t> LoadAs(const std::string& name, const std::string& config,
                                  const std::vector<TestTensor>& tensors) {
    Write(config, tensors);
    return set_->Load(name, adapter_.path());
  }

  static constexpr const char* kConfig = R"({"peft_type": "LORA", "r": 2, "lora_alpha": 3})";

  TempDirectory adapter_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<AdapterSet> set_;
};

}  // namespace dunlin::engine
