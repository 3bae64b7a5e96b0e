// SPDX-License-Identifier: Apache-2.0
// The numeric parameters of sampling as one table: name, type, range, and what else differs between them. Bounds, the
// fields of every API, model defaults and the options of the command line are read from it. To add one: a member of
// kernels::DrawParams, with its default; one of DrawParamOverrides; a RequestField; a row here; fields of the messages
// that shall have it. Const data and pure functions, any thread.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <variant>

#include "engine/request/field_checks.h"
#include "engine/request/request_field.h"
#include "kernels/api/sampling.h"

namespace dunlin::engine {

// What a client says of them; an empty one is the model's default.
struct DrawParamOverrides {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
};

struct FloatParam {
  float kernels::DrawParams::*value;
  std::optional<float> DrawParamOverrides::*given;
  FloatRange range;
};

// [low, high]
struct IntParam {
  int32_t kernels::DrawParams::*value;
  std::optional<int32_t> DrawParamOverrides::*given;
  int32_t low;
  int32_t high;
  bool zero_is_off;  // JSON may say -1 instead, as vLLM's does
};

struct DrawParamTraits {
  RequestField field;
  std::variant<FloatParam, IntParam> param;
  // The least value that generation_config.json may have, where ranges are closed; empty: it has no such field.
  std::optional<double> config_low = std::nullopt;
  const char* help = nullptr;  // of the command's option; null: the range

  constexpr const char* name() const { return kPlainFieldNames[static_cast<size_t>(field)]; }
};

inline constexpr DrawParamTraits kDrawParamTable[] = {
    {RequestField::kTemperature,
     FloatParam{&kernels::DrawParams::temperature, &DrawParamOverrides::temperature, {0, 100}}, 0.0,
     "0: greedy decoding"},
    {RequestField::kTopK,
     IntParam{&kernels::DrawParams::top_k, &DrawParamOverrides::top_k, 0, std::numeric_limits<int32_t>::max(), true},
     0.0, "0: off"},
    {RequestField::kTopP, FloatParam{&kernels::DrawParams::top_p, &DrawParamOverrides::top_p, {0, 1, true}}, 1e-6},
    {RequestField::kMinP, FloatParam{&kernels::DrawParams::min_p, &DrawParamOverrides::min_p, {0, 1}}, 0.0},
    {RequestField::kRepetitionPenalty,
     FloatParam{&kernels::DrawParams::repetition_penalty, &DrawParamOverrides::repetition_penalty, {0, 10, true}},
     1e-3},
    {RequestField::kPresencePenalty,
     FloatParam{&kernels::DrawParams::presence_penalty, &DrawParamOverrides::presence_penalty, {-2, 2}}},
    {RequestField::kFrequencyPenalty,
     FloatParam{&kernels::DrawParams::frequency_penalty, &DrawParamOverrides::frequency_penalty, {-2, 2}}},
};
inline constexpr size_t kNumDrawParams = std::size(kDrawParamTable);

// "[0, 100]"
std::string LimitOf(const DrawParamTraits& row);
bool AllowsZero(const DrawParamTraits& row);

// The first value out of its range: of the floating-point parameters, then of the integers.
std::optional<Violation> CheckDrawParams(const kernels::DrawParams& params);
// Replaces the values that `overrides` has.
void Apply(const DrawParamOverrides& overrides, kernels::DrawParams* params);

}  // namespace dunlin::engine
