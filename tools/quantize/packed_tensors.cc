// SPDX-License-Identifier: Apache-2.0
#include "tools/quantize/packed_tensors.h"

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/model/checkpoint/tensor_dtype.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kWordBits = 32;

int64_t WordsOf(const CodeLayout& layout, int64_t columns) {
  return (columns * layout.bits + kWordBits - 1) / kWordBits;
}

template <class T>
std::vector<std::byte> BytesOf(std::span<const T> values) {
  const std::span<const std::byte> bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

// Column k of a row takes bits [k * bits, (k + 1) * bits) of its words, offset so that the lowest code is 0.
std::vector<uint32_t> Pack(const CodedMatrix& matrix) {
  const int64_t words = WordsOf(matrix.layout, matrix.columns);
  const int32_t bits = matrix.layout.bits;
  const int32_t lowest = -(1 << (bits - 1));
  std::vector<uint32_t> packed(static_cast<size_t>(matrix.rows * words));
  for (int64_t n = 0; n < matrix.rows; ++n) {
    const int8_t* codes = matrix.codes.data() + n * matrix.columns;
    for (int64_t k = 0; k < matrix.columns; ++k) {
      const int64_t bit = k * bits;
      const auto code = static_cast<uint32_t>(codes[k] - lowest);
      packed[static_cast<size_t>(n * words + bit / kWordBits)] |= code << (bit % kWordBits);
    }
  }
  return packed;
}

std::vector<std::byte> ScaleBytes(const CodedMatrix& matrix) {
  if (matrix.layout.scale_dtype == kernels::DType::kF32) return BytesOf<float>(matrix.scales);
  const bool half = matrix.layout.scale_dtype == kernels::DType::kF16;
  std::vector<uint16_t> words;
  words.reserve(matrix.scales.size());
  for (const float scale : matrix.scales) {
    words.push_back(half ? kernels::FloatToFp16(scale) : kernels::FloatToBf16(scale));
  }
  return BytesOf<uint16_t>(words);
}

}  // namespace

std::vector<OutputTensor> PackedTensorsOf(const std::string& module, const CodeLayout& layout, int64_t rows,
                                          int64_t columns) {
  const int64_t words = WordsOf(layout, columns);
  const int64_t groups = columns / layout.group;
  const auto bytes = [](int64_t count, size_t size) { return static_cast<uint64_t>(count) * size; };
  return {{module + ".weight_packed", "I32", {rows, words}, bytes(rows * words, sizeof(uint32_t))},
          {module + ".weight_scale",
           TensorDTypeOf(layout.scale_dtype).name,
           {rows, groups},
           bytes(rows * groups, kernels::SizeOf(layout.scale_dtype))},
          {module + ".weight_shape", "I64", {2}, bytes(2, sizeof(int64_t))}};
}

std::vector<std::vector<std::byte>> PackedBytesOf(const CodedMatrix& matrix) {
  const std::array<int64_t, 2> shape = {matrix.rows, matrix.columns};
  const std::vector<uint32_t> packed = Pack(matrix);
  return {BytesOf<uint32_t>(packed), ScaleBytes(matrix), BytesOf<int64_t>(shape)};
}

nlohmann::ordered_json PackedConfig(const CodeLayout& layout, bool whole_rows, bool by_activity,
                                    const std::vector<std::string>& ignored) {
  nlohmann::ordered_json weights = {{"num_bits", layout.bits}, {"type", "int"},
                                    {"symmetric", true},       {"strategy", whole_rows ? "channel" : "group"},
                                    {"group_size", nullptr},   {"dynamic", false},
                                    {"actorder", nullptr},     {"block_structure", nullptr},
                                    {"observer", "minmax"},    {"observer_kwargs", nlohmann::ordered_json::object()}};
  if (!whole_rows) weights["group_size"] = layout.group;
  if (by_activity && !whole_rows) weights["actorder"] = "static";  // refused beside other strategies
  return {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"quantization_status", "compressed"},
          {"config_groups",
           {{"group_0",
             {{"targets", nlohmann::ordered_json::array({"Linear"})},
              {"weights", weights},
              {"input_activations", nullptr},
              {"output_activations", nullptr}}}}},
          {"ignore", ignored},
          {"kv_cache_scheme", nullptr},
          {"global_compression_ratio", nullptr}};
}

}  // namespace dunlin::engine
