// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/rotary_scaling.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr double kMinTheta = 2.0;  // YaRN divides by its logarithm
constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;
constexpr double kTwoPi = 2.0 * std::numbers::pi;

RotaryScalingKind ParseKind(JsonFields& rope, const char* fallback) {
  const std::string type = rope.TextOr("rope_type", rope.TextOr("type", fallback));
  // mrope: positions of a text are the same in all three of its streams.
  if (type == "default" || type == "dynamic" || type == "mrope") return RotaryScalingKind::kNone;
  if (type == "linear") return RotaryScalingKind::kLinear;
  if (type == "llama3") return RotaryScalingKind::kLlama3;
  if (type == "yarn") return RotaryScalingKind::kYarn;
  if (type == "longrope" || type == "su") return RotaryScalingKind::kLongrope;
  if (type == "proportional") return RotaryScalingKind::kProportional;
  rope.Fail(absl::StrCat("rope_type is '", type.substr(0, 32),
                         "'; known: default, linear, llama3, yarn, dynamic, longrope, proportional"));
  return RotaryScalingKind::kNone;
}

// The top-level field overrides the nested one; the default is the trained context.
double ParseOriginalContext(JsonFields& fields, JsonFields& rope, int64_t max_context) {
  constexpr const char* kName = "original_max_position_embeddings";
  JsonFields& holder = fields.Has(kName) ? fields : rope;
  return static_cast<double>(holder.IntOr(kName, 1, kMaxContextTokens, max_context));
}

// transformers treats 0 as "not given" in these fields.
double NonZeroOr(double value, double fallback) {
  return value == 0.0 ? fallback : value;
}

void ParseLlama3(JsonFields& rope, RotaryScaling* scaling) {
  scaling->factor = rope.Number("factor", 1.0, kMaxFactor);
  scaling->low_freq_factor = rope.Number("low_freq_factor", 1e-3, kMaxFactor);
  scaling->high_freq_factor = rope.Number("high_freq_factor", 1e-3, kMaxFactor);
  if (scaling->high_freq_factor < scaling->low_freq_factor) {
    rope.Fail(absl::StrCat("high_freq_factor is ", scaling->high_freq_factor, "; must be at least low_freq_factor ",
                           scaling->low_freq_factor));
  }
}

// The context that a factor stretches `tokens` to.
int64_t Stretched(double tokens, double factor) {
  return static_cast<int64_t>(std::min(tokens * factor, static_cast<double>(kMaxContextTokens)));
}

void ParseYarn(JsonFields& rope, int64_t max_context, RotaryScaling* scaling) {
  const double stretch = static_cast<double>(max_context) / scaling->original_max_context;
  scaling->factor = rope.NumberOr("factor", 1.0, kMaxFactor, stretch);
  scaling->max_context = Stretched(scaling->original_max_context, scaling->factor);
  scaling->beta_fast = NonZeroOr(rope.NumberOr("beta_fast", 0.0, kMaxFactor, 0.0), 32.0);
  scaling->beta_slow = NonZeroOr(rope.NumberOr("beta_slow", 0.0, kMaxFactor, 0.0), 1.0);
  scaling->mscale = rope.NumberOr("mscale", 0.0, kMaxFactor, 0.0);
  scaling->mscale_all_dim = rope.NumberOr("mscale_all_dim", 0.0, kMaxFactor, 0.0);
  scaling->truncate = rope.BoolOr("truncate", true);
  if (rope.Has("attention_factor")) scaling->attention_factor = rope.Number("attention_factor", 1e-6, kMaxFactor);
}

// Phi-3's configs have the original context beside rope_scaling, and no factor: it is the ratio of the contexts.
void ParseLongrope(JsonFields& rope, int64_t max_context, RotaryScaling* scaling) {
  const double stretch = static_cast<double>(max_context) / scaling->original_max_context;
  scaling->factor = rope.NumberOr("factor", 1e-3, kMaxFactor, std::max(stretch, 1e-3));
  scaling->short_factors = rope.NumberListOr("short_factor", 1e-3, kMaxFactor, kMaxHeadDim);
  if (scaling->short_factors.empty()) rope.Fail("short_factor is missing");
  if (rope.Has("attention_factor")) scaling->attention_factor = rope.Number("attention_factor", 1e-6, kMaxFactor);
  scaling->max_context = std::min(max_context, static_cast<int64_t>(scaling->original_max_context));
}

void ParseSections(JsonFields& rope, RotaryScaling* scaling) {
  scaling->sections = rope.IntListOr("mrope_section", 0, kMaxHeadDim / 2, 3);
  if (const size_t count = scaling->sections.size(); count != 0 && count != 3) {
    rope.Fail(absl::StrCat("mrope_section has ", count, " entries; must have 3"));
  }
}

RotationAxis AxisInTurn(const std::vector<int64_t>& sections, int32_t pair) {
  if (pair % 3 == 1 && pair / 3 < sections[1]) return RotationAxis::kRow;
  return pair % 3 == 2 && pair / 3 < sections[2] ? RotationAxis::kColumn : RotationAxis::kSequence;
}

// base^(2i / dim), exponent and result rounded to FP32.
std::vector<float> Periods(const RotaryScaling& scaling, int32_t dim) {
  std::vector<float> powers(static_cast<size_t>(dim / 2));
  const auto base = static_cast<double>(static_cast<float>(scaling.theta));
  for (size_t i = 0; i < powers.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    powers[i] = static_cast<float>(std::pow(base, static_cast<double>(exponent)));
  }
  return powers;
}

// torch computes number / tensor as number * (1 / tensor); matching its rounding needs the same steps.
float Divide(double number, float by) {
  return 1.0F / by * static_cast<float>(number);
}

float Llama3Frequency(const RotaryScaling& scaling, float frequency) {
  const float wavelength = Divide(kTwoPi, frequency);
  const auto factor = static_cast<float>(scaling.factor);
  if (wavelength > static_cast<float>(scaling.original_max_context / scaling.low_freq_factor))
    return frequency / factor;
  if (wavelength <= static_cast<float>(scaling.original_max_context / scaling.high_freq_factor)) return frequency;
  const float turns = Divide(scaling.original_max_context, wavelength);
  const float smooth = (turns - static_cast<float>(scaling.low_freq_factor)) /
                       static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

// The dimension that completes `num_rotations` rotations over the trained context.
double YarnCorrectionDim(const RotaryScaling& scaling, double num_rotations, int32_t dim) {
  return dim * std::log(scaling.original_max_context / (num_rotations * kTwoPi)) / (2.0 * std::log(scaling.theta));
}

// Fast dimensions keep their frequency, slow ones are interpolated, with a linear ramp in between.
std::vector<float> YarnFrequencies(const RotaryScaling& scaling, int32_t dim) {
  double low = YarnCorrectionDim(scaling, scaling.beta_fast, dim);
  double high = YarnCorrectionDim(scaling, scaling.beta_slow, dim);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;
  std::vector<float> frequencies = Periods(scaling, dim);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float extrapolated = 1.0F / frequencies[i];
    const float interpolated = 1.0F / (static_cast<float>(scaling.factor) * frequencies[i]);
    const float ramp =
        std::clamp((static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0F, 1.0F);
    const float keep = 1.0F - ramp;
    frequencies[i] = interpolated * (1.0F - keep) + extrapolated * keep;
  }
  return frequencies;
}

double YarnMscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

}  // namespace

RotaryScaling ParseRotaryScaling(JsonFields& fields, const RotaryFields& names, int64_t max_context) {
  const nlohmann::json nothing = nlohmann::json::object();
  const nlohmann::json* scaling_object = fields.Object("rope_scaling");
  const nlohmann::json* parameters = fields.Object("rope_parameters");
  const bool old_style = scaling_object != nullptr && !scaling_object->empty();
  const nlohmann::json* object = old_style ? scaling_object : parameters;
  std::string where = absl::StrCat(fields.where(), old_style ? ": rope_scaling" : ": rope_parameters");
  if (object != nullptr && names.nested != nullptr && object->contains(names.nested)) {
    absl::StrAppend(&where, ".", names.nested);
    object = &(*object)[names.nested];
    if (!object->is_object()) fields.Fail(absl::StrCat("rope_parameters.", names.nested, " is not an object"));
    if (!object->is_object()) object = nullptr;
  }
  JsonFields rope(object == nullptr ? nothing : *object, where);

  RotaryScaling scaling;
  scaling.max_context = max_context;
  const double outer_theta = fields.NumberOr(names.theta, kMinTheta, kMaxTheta, names.default_theta);
  scaling.theta = rope.NumberOr("rope_theta", kMinTheta, kMaxTheta, outer_theta);
  scaling.kind = ParseKind(rope, names.default_type);
  const double outer_factor = fields.NumberOr(names.partial_factor, 0.0, 1.0, names.default_partial_factor);
  scaling.partial_factor = rope.NumberOr("partial_rotary_factor", 0.0, 1.0, outer_factor);
  const bool proportional = scaling.kind == RotaryScalingKind::kProportional;
  if (scaling.partial_factor != 1.0 && !names.partial && !proportional) {
    (outer_factor != 1.0 ? fields : rope).Fail("partial_rotary_factor is not 1, which is not supported here");
  }
  if (proportional) scaling.factor = rope.NumberOr("factor", 1.0, kMaxFactor, 1.0);
  if (scaling.kind == RotaryScalingKind::kLinear) {
    scaling.factor = rope.Number("factor", 1.0, kMaxFactor);
    if (!names.stretched) scaling.max_context = Stretched(static_cast<double>(max_context), scaling.factor);
  }
  if (scaling.kind == RotaryScalingKind::kLlama3 || scaling.kind == RotaryScalingKind::kYarn ||
      scaling.kind == RotaryScalingKind::kLongrope) {
    scaling.original_max_context = ParseOriginalContext(fields, rope, max_context);
  }
  if (scaling.kind == RotaryScalingKind::kLlama3) ParseLlama3(rope, &scaling);
  if (scaling.kind == RotaryScalingKind::kYarn) ParseYarn(rope, max_context, &scaling);
  if (scaling.kind == RotaryScalingKind::kLongrope) ParseLongrope(rope, max_context, &scaling);
  if (names.sections != SectionOrder::kNone) ParseSections(rope, &scaling);
  fields.Adopt(rope.status());
  return scaling;
}

std::vector<RotationAxis> RotationAxes(JsonFields& fields, const RotaryScaling& scaling, SectionOrder order,
                                       int32_t rotary_dim) {
  const std::vector<int64_t>& sections = scaling.sections;
  std::vector<RotationAxis> axes;
  if (sections.empty()) return axes;
  if (order == SectionOrder::kInterleaved) {
    for (int32_t pair = 0; pair < rotary_dim / 2; ++pair) axes.push_back(AxisInTurn(sections, pair));
    return axes;
  }
  for (const RotationAxis axis : {RotationAxis::kSequence, RotationAxis::kRow, RotationAxis::kColumn}) {
    axes.insert(axes.end(), static_cast<size_t>(sections[static_cast<size_t>(axis)]), axis);
  }
  if (std::ssize(axes) != rotary_dim / 2) {
    fields.Fail(absl::StrCat("mrope_section adds up to ", axes.size(), "; must be ", rotary_dim / 2,
                             ", the pairs of dimensions that rotate"));
  }
  return axes;
}

std::vector<float> InverseFrequencies(const RotaryScaling& scaling, int32_t rotary_dim) {
  if (scaling.kind == RotaryScalingKind::kYarn) return YarnFrequencies(scaling, rotary_dim);
  std::vector<float> frequencies = Periods(scaling, rotary_dim);
  const auto rotated = static_cast<size_t>(std::floor(scaling.partial_factor * rotary_dim / 2.0));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    float& value = frequencies[i];
    if (scaling.kind == RotaryScalingKind::kLongrope) value *= static_cast<float>(scaling.short_factors[i]);
    value = 1.0F / value;
    if (scaling.kind == RotaryScalingKind::kLinear) value /= static_cast<float>(scaling.factor);
    if (scaling.kind == RotaryScalingKind::kProportional) {
      value = i < rotated ? value / static_cast<float>(scaling.factor) : 0.0F;
    }
    if (scaling.kind == RotaryScalingKind::kLlama3) value = Llama3Frequency(scaling, value);
  }
  return frequencies;
}

float RotaryAttentionFactor(const RotaryScaling& scaling) {
  const bool longrope = scaling.kind == RotaryScalingKind::kLongrope;
  if (scaling.kind != RotaryScalingKind::kYarn && !longrope) return 1.0F;
  if (scaling.attention_factor.has_value()) return static_cast<float>(*scaling.attention_factor);
  if (longrope) {
    if (scaling.factor <= 1.0) return 1.0F;
    return static_cast<float>(std::sqrt(1.0 + std::log(scaling.factor) / std::log(scaling.original_max_context)));
  }
  if (scaling.mscale == 0.0 || scaling.mscale_all_dim == 0.0) {
    return static_cast<float>(YarnMscale(scaling.factor, 1.0));
  }
  return static_cast<float>(YarnMscale(scaling.factor, scaling.mscale) /
                            YarnMscale(scaling.factor, scaling.mscale_all_dim));
}

}  // namespace dunlin::engine
