// SPDX-License-Identifier: Apache-2.0
// The numeric parameters of sampling (engine/request/draw_params.h) as fields of JSON requests, under their plain
// names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>

#include "engine/request/draw_params.h"
#include "server/json/field_table.h"

namespace dunlin::server {

// Value: of a FieldRow, with Number() and Int().
template <class Value>
void ReadDrawParam(const Value& value, const engine::DrawParamTraits& row, engine::DrawParamOverrides* out) {
  if (const auto* number = std::get_if<engine::FloatParam>(&row.param)) {
    out->*number->given = value.Number();
    return;
  }
  const auto& integer = std::get<engine::IntParam>(row.param);
  const int32_t read = value.Int();
  out->*integer.given = integer.zero_is_off && read == -1 ? 0 : read;
}

// kOverrides: where a request has them.
template <class Target, class Value, engine::DrawParamOverrides* (*kOverrides)(Target* target), size_t kIndex>
void ReadDrawParamRow(const Value& value, Target* target) {
  ReadDrawParam(value, engine::kDrawParamTable[kIndex], kOverrides(target));
}

// A row of each, in the order of the table.
template <class Target, class Value, engine::DrawParamOverrides* (*kOverrides)(Target* target)>
constexpr auto DrawParamRows() {
  return []<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array<FieldRow<Target, Value>, sizeof...(kIndex)>{
        {{engine::kDrawParamTable[kIndex].name(), FieldUse::kHonoured,
          ReadDrawParamRow<Target, Value, kOverrides, kIndex>}...}};
  }
  (std::make_index_sequence<engine::kNumDrawParams>());
}

}  // namespace dunlin::server
