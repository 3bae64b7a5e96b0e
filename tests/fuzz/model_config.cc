// SPDX-License-Identifier: Apache-2.0
// The JSON files of a model's directory, up to the list of its weights.
#include <string>

#include "engine/model/load/model_directory.h"
#include "engine/model/load/sampling_defaults.h"
#include "engine/model/spec/weight_slot.h"
#include "engine/model/weights/input_scales.h"
#include "engine/model/weights/weight_parts.h"
#include "tests/fuzz/input_bytes.h"

namespace dunlin::fuzz {
namespace {

constexpr int32_t kMaxListedLayers = 8;
constexpr int32_t kMaxListedExperts = 16;

// What the limits of model_limits.h promise: sizes are positive and no product overflows.
void ListWeights(const engine::ParsedModel& model) {
  const engine::ModelConfig& config = model.config;
  DUNLIN_FUZZ_CHECK(config.num_layers >= 1 && config.vocab_size >= 1, "a model without layers or vocabulary");
  for (const engine::WeightSlotRow& row : engine::kWeightSlotTable) {
    for (int32_t layer = 0; layer < std::min(config.num_layers, kMaxListedLayers); ++layer) {
      if (!engine::HasSlot(config, row.slot, layer)) continue;
      const engine::SlotShape shape = engine::ShapeOf(config, row.slot, layer);
      DUNLIN_FUZZ_CHECK(shape.out_features > 0 && shape.in_features > 0, "a weight without elements");
    }
  }
  if (config.num_layers > kMaxListedLayers || config.experts.routing.num_experts > kMaxListedExperts) return;
  const auto parts = engine::ListWeightParts(model.names, config, "");
  DUNLIN_FUZZ_CHECK(engine::CountParameters(parts) > 0, "a model without parameters");
  DUNLIN_FUZZ_CHECK(engine::CountActiveParameters(config, parts) > 0, "a token without parameters");
}

}  // namespace

// Input: config.json, generation_config.json, hf_quant_config.json, dunlin_input_scales.json; 0xFF between them.
int FuzzModelConfig(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const std::string_view config = input.Part();
  const std::string_view generation = input.Part();
  const std::string_view quantization = input.Part();
  (void)engine::ParseGenerationDefaults(generation, 1000);
  const auto model = engine::ParseModelConfig(config, generation, quantization);
  if (!model.ok()) {
    DUNLIN_FUZZ_CHECK(!model.status().message().empty(), "a refusal without a reason");
    return 0;
  }
  ListWeights(*model);
  (void)engine::ParseInputScales(input.Part(), model->config);
  return 0;
}

}  // namespace dunlin::fuzz
