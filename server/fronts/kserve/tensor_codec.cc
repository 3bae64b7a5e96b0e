// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/tensor_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/serving/record/errors.h"

namespace dunlin::server::kserve {
namespace {

static_assert(std::endian::native == std::endian::little, "raw contents are copied as they are");

using Input = inference::ModelInferRequest::InferInputTensor;
using Contents = inference::InferTensorContents;
using Scalars = std::vector<Scalar>;

constexpr size_t kMaxShownNameBytes = 64;
constexpr size_t kLengthBytes = 4;  // before each BYTES element

// One fixed-size element at `from`.
template <class Wire, class Value>
Scalar LoadElement(const char* from) {
  Wire wire;
  std::memcpy(&wire, from, sizeof(wire));
  return static_cast<Value>(wire);
}

// The elements of one field of the contents; none if there are more than max. Returns their number.
template <class Value, auto kField>
size_t Append(const Contents& contents, size_t max, Scalars* out) {
  const auto& values = kField(contents);
  const auto size = static_cast<size_t>(values.size());
  if (size > max) return size;
  for (const auto& value : values) out->emplace_back(std::in_place_type<Value>, static_cast<Value>(value));
  return size;
}

const auto& Bools(const Contents& c) {
  return c.bool_contents();
}
const auto& Ints(const Contents& c) {
  return c.int_contents();
}
const auto& Ints64(const Contents& c) {
  return c.int64_contents();
}
const auto& Unsigneds(const Contents& c) {
  return c.uint_contents();
}
const auto& Unsigneds64(const Contents& c) {
  return c.uint64_contents();
}
const auto& Floats(const Contents& c) {
  return c.fp32_contents();
}
const auto& Doubles(const Contents& c) {
  return c.fp64_contents();
}
const auto& Strings(const Contents& c) {
  return c.bytes_contents();
}

constexpr DatatypeTraits kTraits[] = {
    {"BOOL", inference::TYPE_BOOL, 1},     {"UINT8", inference::TYPE_UINT8, 1},   {"UINT16", inference::TYPE_UINT16, 2},
    {"UINT32", inference::TYPE_UINT32, 4}, {"UINT64", inference::TYPE_UINT64, 8}, {"INT8", inference::TYPE_INT8, 1},
    {"INT16", inference::TYPE_INT16, 2},   {"INT32", inference::TYPE_INT32, 4},   {"INT64", inference::TYPE_INT64, 8},
    {"FP32", inference::TYPE_FP32, 4},     {"FP64", inference::TYPE_FP64, 8},     {"BYTES", inference::TYPE_STRING, 0},
};

// How the elements of kTraits, by row, are read.
struct Reading {
  Scalar (*load)(const char* from);                                      // one raw element; null: BYTES
  size_t (*append)(const Contents& contents, size_t max, Scalars* out);  // Append
};
constexpr Reading kReadings[] = {
    {LoadElement<uint8_t, bool>, Append<bool, Bools>},
    {LoadElement<uint8_t, uint64_t>, Append<uint64_t, Unsigneds>},
    {LoadElement<uint16_t, uint64_t>, Append<uint64_t, Unsigneds>},
    {LoadElement<uint32_t, uint64_t>, Append<uint64_t, Unsigneds>},
    {LoadElement<uint64_t, uint64_t>, Append<uint64_t, Unsigneds64>},
    {LoadElement<int8_t, int64_t>, Append<int64_t, Ints>},
    {LoadElement<int16_t, int64_t>, Append<int64_t, Ints>},
    {LoadElement<int32_t, int64_t>, Append<int64_t, Ints>},
    {LoadElement<int64_t, int64_t>, Append<int64_t, Ints64>},
    {LoadElement<float, double>, Append<double, Floats>},
    {LoadElement<double, double>, Append<double, Doubles>},
    {nullptr, Append<std::string, Strings>},
};
static_assert(std::size(kTraits) == std::size(kReadings));

absl::Status Fail(const Input& input, std::string_view part, std::string_view problem, std::string_view limit) {
  return InvalidField(absl::StrCat("inputs[", PrintableName(input.name()), "].", engine::AbslView(part)), problem,
                      limit);
}

absl::StatusOr<size_t> NumElements(const Input& input) {
  if (input.shape_size() > kMaxTensorRank) {
    return Fail(input, "shape", absl::StrCat("has ", input.shape_size(), " dimensions"),
                absl::StrCat(kMaxTensorRank, " dimensions"));
  }
  size_t elements = 1;
  for (const int64_t dimension : input.shape()) {
    if (dimension < 0) return Fail(input, "shape", absl::StrCat("has the dimension ", dimension), "0 or more");
    const auto size = static_cast<size_t>(dimension);
    if (size != 0 && elements > kMaxTensorElements / size) {
      return Fail(input, "shape", "has too many elements", absl::StrCat(kMaxTensorElements, " elements"));
    }
    elements *= size;
  }
  return elements;
}

absl::StatusOr<Scalars> DecodeStrings(const Input& input, std::string_view raw, size_t elements) {
  Scalars out;
  for (size_t i = 0; i < elements; ++i) {
    uint32_t length = 0;
    if (raw.size() < kLengthBytes) {
      return Fail(input, "raw", absl::StrCat("ends before element ", i), absl::StrCat(elements, " elements"));
    }
    std::memcpy(&length, raw.data(), kLengthBytes);
    raw.remove_prefix(kLengthBytes);
    if (length > raw.size()) {
      return Fail(input, "raw", absl::StrCat("gives element ", i, " the length ", length),
                  absl::StrCat("the ", raw.size(), " bytes that are left"));
    }
    out.emplace_back(std::in_place_type<std::string>, raw.substr(0, length));
    raw.remove_prefix(length);
  }
  if (raw.empty()) return out;
  return Fail(input, "raw", absl::StrCat("has ", raw.size(), " bytes behind its last element"),
              absl::StrCat(elements, " elements"));
}

absl::StatusOr<Scalars> DecodeRaw(const Input& input, size_t row, std::string_view raw, size_t elements) {
  const size_t element_bytes = kTraits[row].element_bytes;
  if (element_bytes == 0) return DecodeStrings(input, raw, elements);
  if (raw.size() != elements * element_bytes) {
    return Fail(input, "raw", absl::StrCat("has ", raw.size(), " bytes"),
                absl::StrCat(elements * element_bytes, " bytes, as the shape says"));
  }
  Scalars out;
  out.reserve(elements);
  for (const char* at = raw.data(); out.size() < elements; at += element_bytes) {
    out.push_back(kReadings[row].load(at));
  }
  return out;
}

// Appends an output and returns its raw contents.
std::string* AddOutput(std::string_view name, const char* datatype, std::initializer_list<int64_t> shape,
                       inference::ModelInferResponse* response) {
  auto* output = response->add_outputs();
  output->set_name(std::string(name));
  output->set_datatype(datatype);
  for (const int64_t dimension : shape) output->add_shape(dimension);
  return response->add_raw_output_contents();
}

template <class Value>
void AddNumbers(std::string_view name, const char* datatype, std::span<const Value> values,
                inference::ModelInferResponse* response) {
  std::string* raw = AddOutput(name, datatype, {std::ssize(values)}, response);
  raw->assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

}  // namespace

std::string PrintableName(std::string_view name) {
  return absl::CEscape({name.data(), std::min(name.size(), kMaxShownNameBytes)});
}

std::span<const DatatypeTraits> Datatypes() {
  return kTraits;
}

const DatatypeTraits* FindDatatype(std::string_view name) {
  for (const DatatypeTraits& traits : kTraits) {
    if (name == traits.name) return &traits;
  }
  return nullptr;
}

absl::StatusOr<std::vector<Scalar>> DecodeTensor(const Input& input, const std::string* raw) {
  const DatatypeTraits* traits = FindDatatype(input.datatype());
  if (traits == nullptr) {
    std::string names;
    for (const DatatypeTraits& known : kTraits) absl::StrAppend(&names, names.empty() ? "" : ", ", known.name);
    return Fail(input, "datatype", UnknownName(input.datatype(), "name"), names);
  }
  const auto row = static_cast<size_t>(traits - kTraits);
  const absl::StatusOr<size_t> elements = NumElements(input);
  if (!elements.ok()) return elements.status();
  if (raw != nullptr) return DecodeRaw(input, row, *raw, *elements);
  Scalars out;
  const size_t given = kReadings[row].append(input.contents(), *elements, &out);
  if (given == *elements) return out;
  return Fail(input, "contents", absl::StrCat("has ", given, " elements of its datatype"),
              absl::StrCat(*elements, " elements, as the shape says"));
}

void AddBytesOutput(std::string_view name, std::span<const std::string> values,
                    inference::ModelInferResponse* response) {
  std::string* raw = AddOutput(name, "BYTES", {std::ssize(values)}, response);
  for (const std::string& value : values) {
    const auto length = static_cast<uint32_t>(value.size());
    raw->append(reinterpret_cast<const char*>(&length), kLengthBytes);
    raw->append(value);
  }
}

void AddFp32Output(std::string_view name, std::span<const float> values, inference::ModelInferResponse* response) {
  AddNumbers(name, "FP32", values, response);
}

void AddInt32Output(std::string_view name, std::span<const int32_t> values, inference::ModelInferResponse* response) {
  AddNumbers(name, "INT32", values, response);
}

void AddUint32Output(std::string_view name, std::span<const int32_t> values, inference::ModelInferResponse* response) {
  AddNumbers(name, "UINT32", values, response);
}

void AddFp32Matrix(std::string_view name, int64_t rows, int64_t columns, const float* values,
                   inference::ModelInferResponse* response) {
  std::string* raw = AddOutput(name, "FP32", {rows, columns}, response);
  raw->assign(reinterpret_cast<const char*>(values), static_cast<size_t>(rows * columns) * sizeof(float));
}

}  // namespace dunlin::server::kserve
