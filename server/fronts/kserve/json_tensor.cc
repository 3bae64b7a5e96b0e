// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/json_tensor.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/fronts/kserve/tensor_codec.h"
#include "server/serving/record/errors.h"

namespace dunlin::server::kserve {
namespace {

using Input = inference::ModelInferRequest::InferInputTensor;

template <class Value>
bool AppendBytes(Value value, std::string* raw) {
  raw->append(reinterpret_cast<const char*>(&value), sizeof(value));
  return true;
}

// False if the element is no value of that type.
template <class Value>
bool AppendNumber(const Json& element, std::string* raw) {
  if constexpr (std::is_floating_point_v<Value>) {
    if (!element.is_number()) return false;
    const auto number = element.get<double>();
    return std::abs(number) <= double{std::numeric_limits<Value>::max()} &&
           AppendBytes(static_cast<Value>(number), raw);
  } else if (element.is_number_unsigned()) {
    const auto number = element.get<uint64_t>();
    return std::in_range<Value>(number) && AppendBytes(static_cast<Value>(number), raw);
  } else {
    if (!element.is_number_integer()) return false;
    const auto number = element.get<int64_t>();
    return std::in_range<Value>(number) && AppendBytes(static_cast<Value>(number), raw);
  }
}

bool AppendBool(const Json& element, std::string* raw) {
  return element.is_boolean() && AppendBytes(static_cast<uint8_t>(element.get<bool>()), raw);
}

bool AppendText(const Json& element, std::string* raw) {
  if (!element.is_string()) return false;
  const auto& text = element.get_ref<const std::string&>();
  AppendBytes(static_cast<uint32_t>(text.size()), raw);
  raw->append(text);
  return true;
}

struct JsonType {
  const char* datatype;
  bool (*append)(const Json& element, std::string* raw);
};
constexpr JsonType kTypes[] = {
    {"BOOL", AppendBool},
    {"UINT8", AppendNumber<uint8_t>},
    {"UINT16", AppendNumber<uint16_t>},
    {"UINT32", AppendNumber<uint32_t>},
    {"UINT64", AppendNumber<uint64_t>},
    {"INT8", AppendNumber<int8_t>},
    {"INT16", AppendNumber<int16_t>},
    {"INT32", AppendNumber<int32_t>},
    {"INT64", AppendNumber<int64_t>},
    {"FP32", AppendNumber<float>},
    {"FP64", AppendNumber<double>},
    {"BYTES", AppendText},
};

// The depth of `data` is bounded by the parser.
bool AppendAll(const JsonType& type, const Json& data, std::string* raw) {
  if (!data.is_array()) return type.append(data, raw);
  for (const Json& element : data) {
    if (!AppendAll(type, element, raw)) return false;
  }
  return true;
}

template <class Value>
Json NumbersOf(std::string_view raw) {
  Json list = Json::array();
  for (; raw.size() >= sizeof(Value); raw.remove_prefix(sizeof(Value))) {
    Value value;
    std::memcpy(&value, raw.data(), sizeof(value));
    list.push_back(value);
  }
  return list;
}

Json TextsOf(std::string_view raw) {
  Json list = Json::array();
  uint32_t length = 0;
  while (raw.size() >= sizeof(length)) {
    std::memcpy(&length, raw.data(), sizeof(length));
    raw.remove_prefix(sizeof(length));
    list.push_back(std::string(raw.substr(0, length)));
    raw.remove_prefix(length);
  }
  return list;
}

}  // namespace

absl::Status AppendJsonData(const Input& input, const Json& data, std::string* raw) {
  const std::string field = absl::StrCat("inputs[", PrintableName(input.name()), "].data");
  if (!data.is_array()) return InvalidField(field, "is not a list", "");
  for (const JsonType& type : kTypes) {
    if (input.datatype() != type.datatype || AppendAll(type, data, raw)) continue;
    return InvalidField(field, "has an element of another type", type.datatype);
  }
  return absl::OkStatus();
}

Json JsonDataOf(std::string_view datatype, std::string_view raw) {
  if (datatype == "FP32") return NumbersOf<float>(raw);
  if (datatype == "INT32") return NumbersOf<int32_t>(raw);
  if (datatype == "UINT32") return NumbersOf<uint32_t>(raw);
  return TextsOf(raw);
}

}  // namespace dunlin::server::kserve
