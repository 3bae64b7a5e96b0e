// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/input_scales.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/json_fields.h"

namespace dunlin::engine {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "dunlin_input_scales";
constexpr int64_t kVersion = 1;

absl::Status Invalid(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(kInputScalesFile, ": ", what));
}

absl::Status ReadList(const WeightSlotRow& row, const json& list, const ModelConfig& config, InputScales* scales) {
  const size_t count = IsPerLayer(row.slot) ? static_cast<size_t>(config.num_layers) : 1;
  if (!list.is_array() || list.size() != count) {
    return Invalid(absl::StrCat("scales.", row.name, " must be a list of ", count, " numbers, one per layer"));
  }
  for (size_t i = 0; i < count; ++i) {
    const float scale = list[i].is_number() ? list[i].get<float>() : 0.0F;
    if (!std::isfinite(scale) || !(scale > 0.0F)) {
      return Invalid(absl::StrCat("scales.", row.name, "[", i, "] is ", list[i].dump().substr(0, 48),
                                  "; a scale is finite and above 0"));
    }
    (*scales)[{row.slot, static_cast<int32_t>(i)}] = scale;
  }
  return absl::OkStatus();
}

absl::Status CheckHead(JsonFields& fields) {
  const std::string format = fields.TextOr("format", "");
  if (format != kFormat) fields.Fail(absl::StrCat("format is '", format.substr(0, 32), "'; must be ", kFormat));
  fields.Int("version", kVersion, kVersion);
  return fields.status();
}

}  // namespace

absl::StatusOr<InputScales> ParseInputScales(std::string_view text, const ModelConfig& config) {
  const absl::StatusOr<json> object = ParseJsonObject(text, kInputScalesFile);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, kInputScalesFile);
  if (absl::Status status = CheckHead(fields); !status.ok()) return status;
  const json* lists = fields.Object("scales");
  if (!fields.status().ok()) return fields.status();
  if (lists == nullptr || lists->empty()) return Invalid("scales is missing");
  InputScales scales;
  size_t num_known = 0;
  for (const WeightSlotRow& row : kWeightSlotTable) {
    if (!row.input_scale) continue;
    const auto list = lists->find(row.name);
    if (list == lists->end()) continue;
    ++num_known;
    if (absl::Status status = ReadList(row, *list, config, &scales); !status.ok()) return status;
  }
  if (num_known != lists->size())
    return Invalid("scales has an unknown field; known: qkv, attention_out, mlp_up, mlp_down, head");
  return scales;
}

std::string InputScalesText(const InputScales& scales) {
  nlohmann::ordered_json lists;
  for (const WeightSlotRow& row : kWeightSlotTable) {  // only those of linear inputs are in `scales`
    for (const auto& [key, scale] : scales) {          // ascending by layer
      if (key.first == row.slot) lists[row.name].push_back(scale);
    }
  }
  const nlohmann::ordered_json file = {{"format", kFormat}, {"version", kVersion}, {"scales", lists}};
  return file.dump(1) + "\n";
}

}  // namespace dunlin::engine
