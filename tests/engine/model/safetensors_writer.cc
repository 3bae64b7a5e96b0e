// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/model/safetensors_writer.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"
#include "engine/model/checkpoint/tensor_dtype.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

template <typename T>
void AppendBytes(T value, std::string* out) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

void AppendTensor(const TestTensor& tensor, std::string* data) {
  int64_t size = 1;
  for (const int64_t dimension : tensor.shape) size *= dimension;
  for (int64_t i = 0; i < size; ++i) {
    const size_t at = static_cast<size_t>(i);
    const float value = tensor.values.empty() ? ValueOf(tensor.name, i) : tensor.values[at % tensor.values.size()];
    if (tensor.dtype == "F32") {
      AppendBytes(value, data);
    } else if (tensor.dtype == "F16") {
      AppendBytes(kernels::FloatToFp16(value), data);
    } else if (tensor.dtype == "F8_E8M0") {
      AppendBytes(static_cast<uint8_t>(std::isnan(value) ? 0xFF : 127 + std::ilogb(value)), data);
    } else if (tensor.dtype == "F8_E4M3") {
      AppendBytes(kernels::FloatToE4M3(value), data);
    } else if (tensor.dtype == "BF16") {
      AppendBytes(kernels::FloatToBf16(value), data);
    } else {
      data->append(FindTensorDType(tensor.dtype)->bits / 8, '\0');
    }
  }
}

}  // namespace

float ValueOf(std::string_view tensor, int64_t index) {
  uint32_t hash = 2166136261U;
  for (const char c : tensor) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619U;
  hash = (hash ^ static_cast<uint32_t>(index)) * 2654435761U;
  return (static_cast<float>(hash >> 24) - 128.0F) / 64.0F;  // 8 bits
}

std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  std::string bytes;
  AppendBytes(static_cast<uint64_t>(header.size()), &bytes);
  bytes.append(header);
  bytes.append(data);
  return bytes;
}

std::string SafetensorsBytes(const std::vector<TestTensor>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::string data;
  for (const TestTensor& tensor : tensors) {
    const size_t begin = data.size();
    AppendTensor(tensor, &data);
    absl::StrAppend(&header, ",\"", tensor.name, "\":{\"dtype\":\"", tensor.dtype, "\",\"shape\":[",
                    absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[", begin, ",", data.size(), "]}");
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');  // as the published writer pads
  return SafetensorsBytes(header, data);
}

}  // namespace dunlin::engine
