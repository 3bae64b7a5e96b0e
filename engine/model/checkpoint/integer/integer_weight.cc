// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/integer/integer_weight.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/json.h"
#include "engine/base/json_fields.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kWordBits = 32;
constexpr int64_t kMaxSide = 1 << 24;  // rows or columns of a matrix; model_limits.h is stricter
constexpr size_t kMaxStateBytes = 4096;

using Shape = std::vector<int64_t>;

std::string Described(const TensorInfo& tensor) {
  return absl::StrCat("tensor '", tensor.name, "' is ", tensor.dtype->name, " [", absl::StrJoin(tensor.shape, ", "),
                      "]");
}

absl::Status Unfit(const TensorInfo& tensor, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat(Described(tensor), "; must be ", expected));
}

bool IsDType(const TensorInfo& tensor, std::string_view name) {
  return tensor.dtype->name == name;
}

bool IsWide(const TensorInfo& tensor) {
  return IsDType(tensor, "F32") || IsDType(tensor, "F16") || IsDType(tensor, "BF16");
}

absl::Status CheckTensor(const TensorInfo& tensor, const char* dtype, const Shape& shape) {
  if (IsDType(tensor, dtype) && tensor.shape == shape) return absl::OkStatus();
  return Unfit(tensor, absl::StrCat(dtype, " [", absl::StrJoin(shape, ", "), "]"));
}

// Divides the columns as the config says, which the scales must agree with. REQUIRES: group_size is not 0.
absl::Status TakeGroupSize(int64_t group_size, IntegerWeight* weight) {
  weight->group = group_size < 0 ? weight->columns : std::min(group_size, weight->columns);
  const int64_t groups = (weight->columns + weight->group - 1) / weight->group;
  if (groups == weight->num_groups) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(Described(*weight->scales), ": ", weight->num_groups,
                                                 " group(s); group_size of quantization_config is ", group_size,
                                                 ", which divides ", weight->columns, " columns into ", groups));
}

// Scales [rows, groups] or [groups, rows], as `by_row` says; a scale per row may be a vector. group_size: of the
// config.
absl::Status CheckScales(int64_t group_size, bool by_row, IntegerWeight* weight) {
  const TensorInfo& scales = *weight->scales;
  const auto fits = [&](int64_t groups) {
    const Shape shape = by_row ? Shape{weight->rows, groups} : Shape{groups, weight->rows};
    return scales.shape == shape || (by_row && groups == 1 && scales.shape == Shape{weight->rows});
  };
  const int64_t groups = scales.shape.size() == 2 ? scales.shape[by_row ? 1 : 0] : 1;
  if (!IsWide(scales) || groups < 1 || groups > weight->columns || !fits(groups)) {
    const std::string wanted =
        by_row ? absl::StrCat("[", weight->rows, ", groups]") : absl::StrCat("[groups, ", weight->rows, "]");
    return Unfit(scales, absl::StrCat("F32, F16 or BF16 ", wanted, " with up to ", weight->columns, " groups"));
  }
  weight->num_groups = groups;
  if (group_size != 0) return TakeGroupSize(group_size, weight);
  weight->group = (weight->columns + groups - 1) / groups;
  // Of groups the last may be shorter; which columns it has must not be open.
  if ((weight->columns + weight->group - 1) / weight->group != groups) {
    return Unfit(scales, absl::StrCat("of groups that ", weight->columns, " columns can be divided into"));
  }
  return absl::OkStatus();
}

class Finder {
 public:
  Finder(const IntegerQuantization& quantization, const TensorSource& source)
      : quantization_(quantization), source_(source) {}

  absl::StatusOr<std::vector<IntegerWeight>> Run() {
    for (const TensorInfo* tensor : source_.List()) {
      const std::optional<std::string> module = ModuleOf(*tensor);
      if (!module.has_value()) continue;
      IntegerWeight weight;
      weight.name = absl::StrCat(*module, ".weight");
      weight.layout = quantization_.layout;
      weight.bits = quantization_.bits;
      weight.zero_offset = quantization_.zero_offset;
      weight.codes = tensor;
      if (absl::Status status = Fill(*module, &weight); !status.ok()) return status;
      weights_.push_back(std::move(weight));
    }
    std::sort(weights_.begin(), weights_.end(), [](const IntegerWeight& a, const IntegerWeight& b) {
      return std::pair(a.codes->file_index, a.codes->begin) < std::pair(b.codes->file_index, b.codes->begin);
    });
    return std::move(weights_);
  }

 private:
  // The module whose codes this tensor holds.
  std::optional<std::string> ModuleOf(const TensorInfo& tensor) const {
    const auto without = [&tensor](std::string_view ending) -> std::optional<std::string> {
      const std::string_view name = tensor.name;
      if (!name.ends_with(ending)) return std::nullopt;
      return std::string(name.substr(0, name.size() - ending.size()));
    };
    switch (quantization_.layout) {
      case IntegerLayout::kNone:
        return std::nullopt;
      case IntegerLayout::kPacked:
        if (auto module = without(".weight_packed")) return module;
        return IsDType(tensor, "I8") ? without(".weight") : std::nullopt;
      case IntegerLayout::kGptq:
      case IntegerLayout::kAwq:
        return without(".qweight");
      case IntegerLayout::kBits4Map: {
        const auto module = without(".weight");
        return module.has_value() && Part(*module, ".weight.quant_map") != nullptr ? module : std::nullopt;
      }
      case IntegerLayout::kInt8Rows:
        return IsDType(tensor, "I8") ? without(".weight") : std::nullopt;
      case IntegerLayout::kTorchao:
        return without("._weight_qdata");
    }
    return std::nullopt;
  }

  const TensorInfo* Part(const std::string& module, std::string_view ending) const {
    return source_.Find(absl::StrCat(module, std::string(ending)));
  }

  absl::Status Require(const std::string& module, const char* ending, const TensorInfo** out) const {
    *out = Part(module, ending);
    if (*out != nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("tensor '", module, ending, "' is missing"));
  }

  absl::Status Fill(const std::string& module, IntegerWeight* weight) const {
    switch (weight->layout) {
      case IntegerLayout::kPacked:
        return FillPacked(module, weight);
      case IntegerLayout::kGptq:
      case IntegerLayout::kAwq:
        return FillGptqOrAwq(module, weight);
      case IntegerLayout::kBits4Map:
        return FillBits4(module, weight);
      case IntegerLayout::kInt8Rows:
        return FillInt8Rows(module, weight);
      case IntegerLayout::kTorchao:
        return FillTorchao(module, weight);
      case IntegerLayout::kNone:
        break;
    }
    return absl::InternalError("a weight without a layout");
  }

  absl::Status FillPacked(const std::string& module, IntegerWeight* weight) const {
    const TensorInfo& codes = *weight->codes;
    const bool packed = codes.name.ends_with("_packed");
    if (codes.shape.size() != 2 || (packed && !IsDType(codes, "I32"))) {
      return Unfit(codes, packed ? "I32 [rows, words]" : "I8 [rows, columns]");
    }
    weight->rows = codes.shape[0];
    weight->columns = codes.shape[1];
    if (!packed) weight->bits = 8;
    if (packed) {
      if (absl::Status status = ReadColumns(module, weight); !status.ok()) return status;
    }
    if (absl::Status status = Require(module, ".weight_scale", &weight->scales); !status.ok()) return status;
    if (weight->scales->shape == Shape{1} && weight->rows > 1) {
      return Unfit(*weight->scales, absl::StrCat("a scale per row or group; rows are ", weight->rows));
    }
    if (absl::Status status = CheckScales(quantization_.group_size, true, weight); !status.ok()) return status;
    weight->zeros = Part(module, ".weight_zero_point");
    if (weight->zeros != nullptr) {
      const int64_t words = (weight->rows * weight->bits + kWordBits - 1) / kWordBits;
      absl::Status status = packed ? CheckTensor(*weight->zeros, "I32", {words, weight->num_groups})
                                   : CheckTensor(*weight->zeros, "I8", {weight->rows, weight->num_groups});
      if (!status.ok()) return status;
    }
    return TakeGroupIndex(module, ".weight_g_idx", weight);
  }

  // A packed row may end inside a word, so that weight_shape alone has the number of columns.
  absl::Status ReadColumns(const std::string& module, IntegerWeight* weight) const {
    const TensorInfo* shape = nullptr;
    if (absl::Status status = Require(module, ".weight_shape", &shape); !status.ok()) return status;
    weight->others.push_back(shape);
    const bool wide = IsDType(*shape, "I64");
    if ((!wide && !IsDType(*shape, "I32")) || shape->shape != Shape{2}) return Unfit(*shape, "I64 [2]");
    std::byte bytes[16];
    const size_t value_bytes = wide ? sizeof(int64_t) : sizeof(int32_t);
    if (absl::Status status = source_.Read(*shape, 0, std::span(bytes, 2 * value_bytes)); !status.ok()) return status;
    int64_t sides[2];
    for (size_t i = 0; i < 2; ++i) {
      int32_t narrow = 0;
      if (wide) std::memcpy(&sides[i], bytes + i * value_bytes, value_bytes);
      if (!wide) std::memcpy(&narrow, bytes + i * value_bytes, value_bytes);
      if (!wide) sides[i] = narrow;
    }
    const int64_t words = weight->codes->shape[1];
    const auto holds = [&](int64_t bits) {
      return sides[1] >= 1 && sides[1] <= kMaxSide && (sides[1] * bits + kWordBits - 1) / kWordBits == words;
    };
    if (weight->bits == 0) weight->bits = holds(4) ? 4 : 8;
    if (sides[0] != weight->rows || !holds(weight->bits)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", shape->name, "' is [", sides[0], ", ", sides[1],
                                                     "], which ", weight->bits, "-bit codes in ",
                                                     Described(*weight->codes), " do not make"));
    }
    weight->columns = sides[1];
    return absl::OkStatus();
  }

  absl::Status FillGptqOrAwq(const std::string& module, IntegerWeight* weight) const {
    const TensorInfo& codes = *weight->codes;
    const bool gptq = weight->layout == IntegerLayout::kGptq;
    if (!IsDType(codes, "I32") || codes.shape.size() != 2 || codes.shape[0] < 1 || codes.shape[1] < 1 ||
        std::max(codes.shape[0], codes.shape[1]) > kMaxSide) {
      return Unfit(codes, gptq ? "I32 [columns / codes of a word, rows]" : "I32 [columns, rows / codes of a word]");
    }
    const int64_t codes_per_word = kWordBits / weight->bits;
    weight->columns = gptq ? codes.shape[0] * codes_per_word : codes.shape[0];
    weight->rows = gptq ? codes.shape[1] : codes.shape[1] * codes_per_word;
    if (absl::Status status = Require(module, ".scales", &weight->scales); !status.ok()) return status;
    if (absl::Status status = CheckScales(quantization_.group_size, false, weight); !status.ok()) return status;
    if (absl::Status status = Require(module, ".qzeros", &weight->zeros); !status.ok()) return status;
    const int64_t zero_words = (weight->rows + codes_per_word - 1) / codes_per_word;
    if (absl::Status status = CheckTensor(*weight->zeros, "I32", {weight->num_groups, zero_words}); !status.ok()) {
      return status;
    }
    return gptq ? TakeGroupIndex(module, ".g_idx", weight) : absl::OkStatus();
  }

  absl::Status TakeGroupIndex(const std::string& module, const char* ending, IntegerWeight* weight) const {
    weight->group_index = Part(module, ending);
    if (weight->group_index == nullptr) return absl::OkStatus();
    return CheckTensor(*weight->group_index, "I32", {weight->columns});
  }

  absl::Status FillBits4(const std::string& module, IntegerWeight* weight) const {
    const std::string prefix = absl::StrCat(module, ".weight");
    weight->bits = 4;
    int64_t block = 0;
    int64_t nested_block = 0;
    if (absl::Status status = ReadState(prefix, weight, &block, &nested_block); !status.ok()) return status;
    const int64_t bytes = weight->rows * weight->columns / 2;
    if (!IsDType(*weight->codes, "U8") || weight->codes->end - weight->codes->begin != static_cast<uint64_t>(bytes)) {
      return Unfit(*weight->codes, absl::StrCat("U8 with ", bytes, " elements"));
    }
    weight->group = block;
    weight->num_groups = weight->columns / block;
    const int64_t num_scales = weight->rows * weight->num_groups;
    if (absl::Status status = Require(prefix, ".quant_map", &weight->table); !status.ok()) return status;
    if (absl::Status status = CheckTensor(*weight->table, "F32", {16}); !status.ok()) return status;
    if (absl::Status status = Require(prefix, ".absmax", &weight->scales); !status.ok()) return status;
    weight->nested_scales = Part(prefix, ".nested_absmax");
    const bool nested = weight->nested_scales != nullptr;
    absl::Status status = CheckTensor(*weight->scales, nested ? "U8" : "F32", {num_scales});
    if (!status.ok() || !nested) return status;
    if (nested_block < 1) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", weight->nested_scales->name, "' has no block size"));
    }
    weight->nested_group = nested_block;
    status = CheckTensor(*weight->nested_scales, "F32", {(num_scales + nested_block - 1) / nested_block});
    if (!status.ok()) return status;
    if (status = Require(prefix, ".nested_quant_map", &weight->scale_table); !status.ok()) return status;
    return CheckTensor(*weight->scale_table, "F32", {256});
  }

  // The JSON text in PREFIX.quant_state.bitsandbytes__nf4.
  absl::Status ReadState(const std::string& prefix, IntegerWeight* weight, int64_t* block,
                         int64_t* nested_block) const {
    const TensorInfo* state = nullptr;
    for (const char* kind : {"nf4", "fp4"}) {
      if (state == nullptr) state = Part(prefix, absl::StrCat(".quant_state.bitsandbytes__", kind));
    }
    if (state == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", prefix, ".quant_state.bitsandbytes__nf4' is missing"));
    }
    weight->others.push_back(state);
    const uint64_t bytes = state->end - state->begin;
    if (!IsDType(*state, "U8") || bytes > kMaxStateBytes) return Unfit(*state, "U8, a JSON text of up to 4096 bytes");
    std::string text(bytes, '\0');
    const auto out = std::as_writable_bytes(std::span(text.data(), text.size()));
    if (absl::Status status = source_.Read(*state, 0, out); !status.ok()) return status;
    const absl::StatusOr<nlohmann::json> object = ParseJsonObject(text, state->name);
    if (!object.ok()) return object.status();
    JsonFields fields(*object, state->name);
    const std::vector<int64_t> shape = fields.IntListOr("shape", 1, kMaxSide, 2);
    *block = fields.Int("blocksize", 16, 4096);
    *nested_block = fields.IntOr("nested_blocksize", 1, 1 << 20, 0);
    weight->scale_offset = static_cast<float>(fields.NumberOr("nested_offset", -1e6, 1e6, 0.0));
    if (fields.status().ok() && (shape.size() != 2 || shape[1] % *block != 0)) {
      fields.Fail(absl::StrCat("shape is [", absl::StrJoin(shape, ", "),
                               "]; must be [rows, columns], columns in blocks of ", *block));
    }
    if (!fields.status().ok()) return fields.status();
    weight->rows = shape[0];
    weight->columns = shape[1];
    return absl::OkStatus();
  }

  absl::Status FillInt8Rows(const std::string& module, IntegerWeight* weight) const {
    weight->bits = 8;
    if (weight->codes->shape.size() != 2) return Unfit(*weight->codes, "I8 [rows, columns]");
    weight->rows = weight->codes->shape[0];
    weight->columns = weight->codes->shape[1];
    weight->num_groups = 1;
    weight->group = weight->columns;
    if (absl::Status status = Require(module, ".SCB", &weight->scales); !status.ok()) return status;
    if (const TensorInfo* format = Part(module, ".weight_format")) weight->others.push_back(format);
    return CheckTensor(*weight->scales, "F32", {weight->rows});
  }

  absl::Status FillTorchao(const std::string& module, IntegerWeight* weight) const {
    const TensorInfo& codes = *weight->codes;
    if (!IsDType(codes, "I8") || codes.shape.size() != 2) return Unfit(codes, "I8 [rows, columns]");
    weight->rows = codes.shape[0];
    weight->columns = codes.shape[1];
    if (absl::Status status = Require(module, "._weight_scale", &weight->scales); !status.ok()) return status;
    if (absl::Status status = CheckScales(quantization_.group_size, true, weight); !status.ok()) return status;
    weight->zeros = Part(module, "._weight_zero_point");
    if (weight->zeros == nullptr) return absl::OkStatus();
    return CheckTensor(*weight->zeros, "I8", {weight->rows, weight->num_groups});
  }

  const IntegerQuantization& quantization_;
  const TensorSource& source_;
  std::vector<IntegerWeight> weights_;
};

}  // namespace

absl::StatusOr<std::vector<IntegerWeight>> FindIntegerWeights(const IntegerQuantization& quantization,
                                                              const TensorSource& source) {
  return Finder(quantization, source).Run();
}

}  // namespace dunlin::engine
