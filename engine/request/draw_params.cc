// SPDX-License-Identifier: Apache-2.0
#include "engine/request/draw_params.h"

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

std::string LimitOf(const DrawParamTraits& row) {
  if (const auto* number = std::get_if<FloatParam>(&row.param)) return LimitOf(number->range);
  const auto& integer = std::get<IntParam>(row.param);
  return absl::StrCat("[", integer.low, ", ", integer.high, "]");
}

bool AllowsZero(const DrawParamTraits& row) {
  if (const auto* number = std::get_if<FloatParam>(&row.param)) {
    return !CheckFloat(row.field, 0.0F, number->range).has_value();
  }
  const auto& integer = std::get<IntParam>(row.param);
  return integer.low <= 0 && integer.high >= 0;
}

std::optional<Violation> CheckDrawParams(const kernels::DrawParams& params) {
  for (const DrawParamTraits& row : kDrawParamTable) {
    const auto* number = std::get_if<FloatParam>(&row.param);
    if (number == nullptr) continue;
    if (auto v = CheckFloat(row.field, params.*number->value, number->range)) return v;
  }
  for (const DrawParamTraits& row : kDrawParamTable) {
    const auto* integer = std::get_if<IntParam>(&row.param);
    if (integer == nullptr) continue;
    if (auto v = CheckInt(row.field, params.*integer->value, integer->low, integer->high)) return v;
  }
  return std::nullopt;
}

void Apply(const DrawParamOverrides& overrides, kernels::DrawParams* params) {
  for (const DrawParamTraits& row : kDrawParamTable) {
    std::visit(
        [&](const auto& param) {
          const auto& given = overrides.*param.given;
          if (given.has_value()) params->*param.value = *given;
        },
        row.param);
  }
}

}  // namespace dunlin::engine
