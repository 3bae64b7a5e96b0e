// SPDX-License-Identifier: Apache-2.0
// Files of a low-rank adapter: PEFT's directory and GGUF, up to matrices in a model's device memory.
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/adapters/adapter_file.h"
#include "engine/adapters/load_adapter.h"
#include "engine/model/load/load_model.h"
#include "kernels/api/float_formats.h"
#include "tests/engine/model/plain_device.h"
#include "tests/fuzz/input_bytes.h"
#include "tests/fuzz/scratch_directory.h"

namespace dunlin::fuzz {
namespace {

constexpr uint64_t kMaxDataBytes = uint64_t{1} << 20;  // zeros behind a header
constexpr engine::AdapterRoom kRoom = {.max_rank = 16, .max_bytes = size_t{1} << 20};

// A model of two layers, as a directory or as a GGUF file.
class BaseModel {
 public:
  explicit BaseModel(const char* path) {
    auto loaded = engine::LoadModel({.path = std::string(DUNLIN_SOURCE_DIR) + "/" + path,
                                     .random_shape = "",
                                     .precisions = {engine::Precision::kFp32}},
                                    device_.get());
    DUNLIN_FUZZ_CHECK(loaded.ok(), std::string(loaded.status().message()));
    model_ = *std::move(loaded);
  }
  const engine::Model& operator*() const { return *model_; }

 private:
  engine::PlainDeviceState state_;
  std::unique_ptr<kernels::Device> device_ = engine::MakePlainDevice(&state_);
  std::unique_ptr<engine::Model> model_;
};

// Modules have both halves, in types that are loaded, under names of their own.
void CheckModules(const std::vector<engine::AdapterModule>& modules) {
  DUNLIN_FUZZ_CHECK(!modules.empty(), "an adapter without a module");
  for (size_t i = 0; i < modules.size(); ++i) {
    DUNLIN_FUZZ_CHECK(i == 0 || modules[i - 1].name < modules[i].name, "modules that are not sorted, or not distinct");
    DUNLIN_FUZZ_CHECK(std::isfinite(modules[i].alpha), "a module without a finite alpha");
    for (const engine::AdapterMatrix* half : {&modules[i].down, &modules[i].up}) {
      DUNLIN_FUZZ_CHECK(!half->tensor.empty() && half->read != nullptr, "a module that lacks a half");
    }
  }
}

float ValueAt(const kernels::LowRankPair& pair, int64_t i) {
  if (pair.dtype == kernels::DType::kF32) return static_cast<const float*>(pair.up)[i];
  const uint16_t bits = static_cast<const uint16_t*>(pair.up)[i];
  return pair.dtype == kernels::DType::kF16 ? kernels::Fp16ToFloat(bits) : kernels::Bf16ToFloat(bits);
}

// What the kernels take for granted: columns that are there and distinct, ranks within the room, finite numbers.
void CheckPairs(std::span<const kernels::LowRankPair> pairs) {
  int64_t end = 0;  // of the columns so far
  DUNLIN_FUZZ_CHECK(pairs.size() <= static_cast<size_t>(kernels::kLowRankPairsMax), "more pairs than a use has");
  for (const kernels::LowRankPair& pair : pairs) {
    DUNLIN_FUZZ_CHECK(pair.first_column >= end && pair.out_features > 0, "columns that are not distinct");
    end = int64_t{pair.first_column} + pair.out_features;
    DUNLIN_FUZZ_CHECK(pair.rank >= 1 && pair.rank <= kRoom.max_rank, "a rank beyond the limit");
    DUNLIN_FUZZ_CHECK(std::isfinite(pair.scale), "a scale that is not finite");
    const int64_t count = pair.rank * kernels::LowRankPanels(pair.out_features) * kernels::kLowRankPanel;
    for (int64_t i = 0; i < count; ++i) {
      DUNLIN_FUZZ_CHECK(std::isfinite(ValueAt(pair, i)), "a value that is not finite");
    }
  }
}

void CheckAdapter(const engine::Model& model, const std::vector<engine::AdapterModule>& modules) {
  const auto adapter = engine::MakeAdapter(model, modules, kRoom);
  if (!adapter.ok()) {
    DUNLIN_FUZZ_CHECK(!adapter.status().message().empty(), "a refusal without a reason");
    return;
  }
  DUNLIN_FUZZ_CHECK((*adapter)->bytes() <= kRoom.max_bytes, "an adapter of more bytes than it may take");
  DUNLIN_FUZZ_CHECK(!(*adapter)->targets().empty(), "an adapter that adapts nothing");
  for (int32_t layer = 0; layer < model.config().num_layers; ++layer) {
    for (size_t i = 0; i < engine::kNumProjections; ++i) {
      const auto projection = static_cast<engine::Projection>(i);
      if (!engine::IsOfExperts(projection)) {
        CheckPairs((*adapter)->pairs(projection, layer));
        continue;
      }
      for (int32_t expert = 0; expert < model.config().experts.routing.num_experts; ++expert) {
        CheckPairs((*adapter)->expert_pairs(projection, layer, expert));
      }
    }
  }
}

// Input: the bytes of data (4 bytes), adapter_config.json and the header of the weights, 0xFF after each, the data's
// beginning.
void FuzzPeft(InputBytes input) {
  static const BaseModel model("tests/golden/models/llama_gqa");
  static const BaseModel experts("tests/golden/models/mixtral_tiny");
  static const ScratchDirectory directory;
  const uint64_t data_bytes = input.Word() % kMaxDataBytes;
  directory.Write("adapter_config.json", input.Part());
  const std::string_view header = input.Part();
  std::string file(sizeof(uint64_t), '\0');
  for (size_t i = 0; i < sizeof(uint64_t); ++i) file[i] = static_cast<char>(uint64_t{header.size()} >> (8 * i));
  file += header;
  const uint64_t size = file.size() + data_bytes;
  file += input.Text(data_bytes);
  directory.Write("adapter_model.safetensors", file, size);
  const auto modules = engine::OpenPeftAdapter(directory.path());
  if (!modules.ok()) return;
  CheckModules(*modules);
  CheckAdapter(*model, *modules);
  CheckAdapter(*experts, *modules);
}

// Input: the beginning of a file; what follows are zeros.
void FuzzGguf(InputBytes input) {
  static const BaseModel model("tests/golden/gguf/llama_gqa.gguf");
  static const ScratchDirectory directory;
  directory.Write("adapter.gguf", input.rest(), input.rest().size() + kMaxDataBytes);
  const auto modules = engine::OpenGgufAdapter(directory.path() + "/adapter.gguf");
  if (!modules.ok()) return;
  CheckModules(*modules);
  CheckAdapter(*model, *modules);
}

}  // namespace

// Input: which form (1 byte), then as above.
int FuzzAdapterFiles(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  if (input.Below(2) == 0) {
    FuzzPeft(input);
  } else {
    FuzzGguf(input);
  }
  return 0;
}

}  // namespace dunlin::fuzz
