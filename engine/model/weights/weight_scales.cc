// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_scales.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "kernels/api/float_formats.h"
#include "kernels/api/gemm.h"

namespace dunlin::engine {
namespace {

using kernels::DType;

constexpr std::string_view kWeightEnding = "weight";

int64_t CeilDiv(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit;
}

bool IsFp8(const TensorInfo& tensor) {
  return tensor.dtype->loadable == DType::kF8E4M3;
}

// Powers of two.
bool IsExponents(const TensorInfo& tensor) {
  return std::string_view(tensor.dtype->name) == "F8_E8M0";
}

// The accepted shapes of the scale of a [rows, columns] matrix; publishers differ.
std::vector<std::vector<int64_t>> ScaleShapes(const Quantization& quantization, int64_t rows, int64_t columns) {
  switch (quantization.weights) {
    case WeightScaling::kTensor:
      return {{}, {1}, {1, 1}};
    case WeightScaling::kChannel:
      return {{rows, 1}, {rows}};
    case WeightScaling::kBlock:
      return {{CeilDiv(rows, quantization.block_rows), CeilDiv(columns, kernels::kScaleBlock)}};
  }
  return {};
}

absl::Status CheckScaleTensor(const TensorInfo& tensor, const std::vector<std::vector<int64_t>>& shapes) {
  if (std::find(shapes.begin(), shapes.end(), tensor.shape) == shapes.end()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' has shape ", ShapeText(tensor.shape),
                                                   "; the quantization makes it ", ShapeText(shapes.front())));
  }
  if (IsExponents(tensor) || (tensor.dtype->loadable.has_value() && !IsFp8(tensor))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' has dtype ", tensor.dtype->name,
                                                 "; scales are loaded from F32, F16, BF16 and F8_E8M0"));
}

// The tensor "<module>." + the first of `endings` that exists; an error when none does.
absl::StatusOr<const TensorInfo*> FindScale(const TensorSource& source, const std::string& weight,
                                            std::span<const char* const> endings,
                                            const std::vector<std::vector<int64_t>>& shapes) {
  const std::string module = weight.substr(0, weight.size() - kWeightEnding.size());
  for (const char* ending : endings) {
    const TensorInfo* tensor = source.Find(absl::StrCat(module, ending));
    if (tensor == nullptr) continue;
    if (absl::Status status = CheckScaleTensor(*tensor, shapes); !status.ok()) return status;
    return tensor;
  }
  return absl::InvalidArgumentError(absl::StrCat("tensor '", weight, "' is ", source.Find(weight)->dtype->name,
                                                 ", but its scale '", module, endings.front(), "' is missing"));
}

absl::Status FindPartScales(const Quantization& quantization, const TensorSource& source, WeightPart* part) {
  const auto refused = [&](const char* why) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", part->tensor, "' is F8_E4M3, but ", why));
  };
  if (quantization.format == nullptr)
    return refused("config.json has no quantization_config that says how it is scaled");
  const std::string module = part->tensor.substr(0, part->tensor.size() - kWeightEnding.size() - 1);
  if (IsIgnored(quantization, module)) return refused("the quantization config lists its module as ignored");
  if (part->transposed) return refused("FP8 weights are loaded as [out_features, in_features] only");
  const auto shapes = ScaleShapes(quantization, part->shape[0], part->shape[1]);
  const auto scale = FindScale(source, part->tensor, quantization.format->weight_scales, shapes);
  if (!scale.ok()) return scale.status();
  const bool blocks = quantization.weights == WeightScaling::kBlock;
  part->scales.weight = *scale;
  part->scales.block = blocks ? kernels::kScaleBlock : 0;
  part->scales.rows_per_scale = blocks                                            ? quantization.block_rows
                                : quantization.weights == WeightScaling::kChannel ? 1
                                                                                  : part->shape[0];
  if (!quantization.static_inputs) return absl::OkStatus();
  const auto input = FindScale(source, part->tensor, quantization.format->input_scales, {{}, {1}, {1, 1}});
  if (!input.ok()) return input.status();
  part->scales.input = *input;
  return absl::OkStatus();
}

// The parts of a fused matrix are adjacent in `parts`, and so are a matrix's of all experts of a layer.
absl::Status CheckFused(const std::vector<WeightPart>& parts) {
  const WeightPart* previous = nullptr;
  for (const WeightPart& part : parts) {
    if (part.is_vector()) continue;
    const bool fused = previous != nullptr && previous->slot == part.slot && previous->layer == part.layer;
    if (fused && (previous->scales.weight == nullptr) != (part.scales.weight == nullptr)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "of '", previous->tensor, "' and '", part.tensor, "', which ",
          previous->index == part.index ? "form one matrix" : "are experts of one layer", ", only one is F8_E4M3"));
    }
    previous = &part;
  }
  return absl::OkStatus();
}

float ValueAt(const std::vector<std::byte>& bytes, const TensorInfo& tensor, size_t index) {
  if (IsExponents(tensor)) {
    const int exponent = std::to_integer<int>(bytes[index]);
    return exponent == 0xFF ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, exponent - 127);
  }
  const DType dtype = *tensor.dtype->loadable;
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes.data() + index * sizeof(bits), sizeof(bits));
  return dtype == DType::kF16 ? kernels::Fp16ToFloat(bits) : kernels::Bf16ToFloat(bits);
}

}  // namespace

absl::Status FindScales(const Quantization& quantization, const TensorSource& source, std::vector<WeightPart>* parts) {
  for (WeightPart& part : *parts) {
    const TensorInfo* tensor = source.Find(part.tensor);
    const bool quantized = tensor != nullptr && !part.is_vector() && IsFp8(*tensor) && tensor->shape == part.shape;
    if (!quantized) continue;
    if (absl::Status status = FindPartScales(quantization, source, &part); !status.ok()) return status;
  }
  return CheckFused(*parts);
}

absl::StatusOr<std::vector<float>> ReadScales(const TensorSource& source, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.end - tensor.begin);
  if (absl::Status status = source.Read(tensor, 0, bytes); !status.ok()) return status;
  std::vector<float> scales(bytes.size() * 8 / tensor.dtype->bits);
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = ValueAt(bytes, tensor, i);
    if (std::isfinite(scales[i]) && scales[i] > 0.0F) continue;
    return absl::InvalidArgumentError(absl::StrCat(source.FileOf(tensor), ": tensor '", tensor.name, "' has ",
                                                   scales[i], " at ", i, "; a scale is finite and above 0"));
  }
  return scales;
}

bool IsKvScale(std::string_view tensor) {
  constexpr std::string_view kSuffixes[] = {".k_scale", ".v_scale", ".kv_scale", ".k_proj.output_scale",
                                            ".v_proj.output_scale"};
  return std::any_of(std::begin(kSuffixes), std::end(kSuffixes),
                     [tensor](std::string_view suffix) { return tensor.ends_with(suffix); });
}

absl::StatusOr<std::string> CheckKvScales(const TensorSource& source, bool read) {
  int64_t count = 0;
  std::string first;
  for (const TensorInfo* tensor : source.List()) {
    if (!IsKvScale(tensor->name)) continue;
    if (count++ == 0) first = tensor->name;
    if (absl::Status status = CheckScaleTensor(*tensor, {{}, {1}}); !status.ok()) return status;
    if (!read) continue;
    if (const auto scales = ReadScales(source, *tensor); !scales.ok()) return scales.status();
  }
  if (count == 0) return std::string();
  return absl::StrCat(first, count > 1 ? absl::StrCat(" and ", count - 1, " more KV scales") : "",
                      " ignored: E4M3 KV pages have a scale per token and head");
}

}  // namespace dunlin::engine
