// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/quantization.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/model/checkpoint/quantization_formats.h"

namespace dunlin::engine {
namespace {

// The row for quantization_config, or null after an error that lists the known methods.
const QuantizationFormat* SelectFormat(JsonFields& fields) {
  std::string method = fields.TextOr("quant_method", "");
  if (method.empty() && fields.Has("quant_algo")) method = "modelopt";  // as older versions of it write
  std::string known;
  for (const QuantizationFormat& row : QuantizationFormats()) {
    if (method == row.method && (!row.blocks || fields.Has("weight_block_size"))) return &row;
    if (!absl::StrContains(known, row.method)) absl::StrAppend(&known, known.empty() ? "" : ", ", row.method);
  }
  fields.Fail(absl::StrCat("quant_method is '", method.substr(0, 32), "'; known: ", known));
  return nullptr;
}

absl::StatusOr<Quantization> Parse(JsonFields fields, const QuantizationFormat* format) {
  Quantization quantization;
  if (format == nullptr) format = SelectFormat(fields);
  if (!fields.status().ok()) return fields.status();
  quantization.format = format;
  format->parse(fields, &quantization);
  if (!fields.status().ok()) return fields.status();
  std::sort(quantization.ignored.begin(), quantization.ignored.end());
  return quantization;
}

const QuantizationFormat* FormatNamed(std::string_view method) {
  const auto formats = QuantizationFormats();
  return &*std::find_if(formats.begin(), formats.end(), [&](const auto& row) { return method == row.method; });
}

}  // namespace

absl::StatusOr<Quantization> ParseQuantization(JsonFields& config, std::string_view hf_quant_text) {
  for (const char* name : {"quantization_config", "compression_config"}) {
    const nlohmann::json* object = config.Object(name);
    if (!config.status().ok()) return config.status();
    if (object == nullptr) continue;
    absl::StatusOr<Quantization> parsed = Parse(JsonFields(*object, absl::StrCat(config.where(), ": ", name)), nullptr);
    if (parsed.ok() && parsed->format->parse == &ParseFp8) parsed->microscaled |= HasFp4Experts(config);
    if (!config.status().ok()) return config.status();
    return parsed;
  }
  if (hf_quant_text.empty()) return Quantization();
  const absl::StatusOr<nlohmann::json> object = ParseJsonObject(hf_quant_text, kHfQuantFile);
  if (!object.ok()) return object.status();
  return Parse(JsonFields(*object, kHfQuantFile), FormatNamed("modelopt"));
}

bool IsIgnored(const Quantization& quantization, std::string_view module) {
  const std::vector<std::string>& ignored = quantization.ignored;
  for (std::string_view name = module;; name.remove_prefix(name.find('.') + 1)) {
    if (std::binary_search(ignored.begin(), ignored.end(), name)) return true;
    if (name.find('.') == std::string_view::npos) return false;
  }
}

}  // namespace dunlin::engine
