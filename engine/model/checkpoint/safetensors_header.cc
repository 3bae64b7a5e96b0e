// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"
#include "engine/base/string_view.h"

namespace dunlin::engine {
namespace {

using nlohmann::json;

// Accepts exactly {"__metadata__": {text: text}, name: {"dtype": text, "shape": [n...], "data_offsets": [b, e]}}.
// Builds nothing but the tensors, so memory stays proportional to the header.
class HeaderHandler final : public json::json_sax_t {
 public:
  std::vector<TensorInfo> tensors;
  std::string fault;

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return Unexpected("a fraction"); }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) return Unexpected("a number");
    if (field_ == Field::kShape) {
      if (tensors.back().shape.size() == kMaxTensorRank) return Fail("has too many dimensions");
      if (value > INT64_MAX) return Fail("has a dimension above 2^63");
      tensors.back().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (num_offsets_ == 2) return Fail("data_offsets has more than two numbers");
    (num_offsets_++ == 0 ? tensors.back().begin : tensors.back().end) = value;
    return true;
  }

  bool string(string_t& value) override {
    if (in_metadata_ && depth_ == 2) return true;
    if (in_metadata_ || depth_ != 2 || field_ != Field::kDtype) return Unexpected("a string");
    tensors.back().dtype = FindTensorDType(value);
    return tensors.back().dtype != nullptr || Fail(absl::StrCat("has unknown dtype '", value.substr(0, 32), "'"));
  }

  bool start_object(std::size_t) override {
    const bool expected = depth_ == 0 || (depth_ == 1 && field_ == Field::kNone);
    if (!expected) return Unexpected("an object");
    ++depth_;
    seen_fields_ = 0;
    num_offsets_ = 0;
    return true;
  }

  bool key(string_t& name) override {
    if (depth_ == 1) return StartEntry(name);
    if (in_metadata_) return true;
    field_ = name == "dtype"          ? Field::kDtype
             : name == "shape"        ? Field::kShape
             : name == "data_offsets" ? Field::kOffsets
                                      : Field::kNone;
    if (field_ == Field::kNone) return Fail(absl::StrCat("has unknown field '", name.substr(0, 32), "'"));
    const uint32_t bit = 1U << static_cast<uint32_t>(field_);
    if ((seen_fields_ & bit) != 0) return Fail(absl::StrCat("has '", name, "' twice"));
    seen_fields_ |= bit;
    return true;
  }

  bool end_object() override {
    if (--depth_ == 0) return true;
    if (!in_metadata_ && (seen_fields_ != kAllFields || num_offsets_ != 2)) {
      return Fail("lacks dtype, shape or data_offsets");
    }
    in_metadata_ = false;
    field_ = Field::kNone;
    return true;
  }

  bool start_array(std::size_t) override {
    const bool expected = depth_ == 2 && !in_array_ && (field_ == Field::kShape || field_ == Field::kOffsets);
    in_array_ = true;
    return expected || Unexpected("an array");
  }
  bool end_array() override {
    in_array_ = false;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fault = absl::StrCat("header is not valid JSON at byte ", position);
    return false;
  }

 private:
  enum class Field : uint8_t { kNone, kDtype, kShape, kOffsets };
  static constexpr uint32_t kAllFields = 0b1110;

  bool StartEntry(const std::string& name) {
    in_metadata_ = name == "__metadata__";
    if (in_metadata_) return !std::exchange(seen_metadata_, true) || Unexpected("__metadata__ twice");
    if (tensors.size() == kMaxTensors) return Unexpected(absl::StrCat("more than ", kMaxTensors, " tensors"));
    if (name.size() > kMaxTensorNameBytes) {
      return Unexpected(absl::StrCat("a tensor name of ", name.size(), " bytes; limit is ", kMaxTensorNameBytes));
    }
    tensors.emplace_back().name = name;
    return true;
  }

  bool Unexpected(const std::string& what) {
    fault = absl::StrCat("header has ", what, depth_ >= 1 && !tensors.empty() ? " in or after tensor '" : "",
                         depth_ >= 1 && !tensors.empty() ? tensors.back().name + "'" : "");
    return false;
  }
  bool Fail(const std::string& what) {
    fault = absl::StrCat("tensor '", tensors.back().name, "' ", what);
    return false;
  }

  int depth_ = 0;  // open objects
  bool in_metadata_ = false;
  bool seen_metadata_ = false;
  bool in_array_ = false;
  Field field_ = Field::kNone;  // of the open tensor
  uint32_t seen_fields_ = 0;
  int num_offsets_ = 0;
};

absl::Status CheckSize(const TensorInfo& tensor) {
  CheckedU64 bits(tensor.dtype->bits);
  for (const int64_t dimension : tensor.shape) bits *= CheckedU64(static_cast<uint64_t>(dimension));
  if (!bits.ok())
    return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' has a shape whose size overflows"));
  if (tensor.begin > tensor.end) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", tensor.name, "' begins at ", tensor.begin, " and ends at ", tensor.end));
  }
  if (bits.value() % 8 != 0 || bits.value() / 8 != tensor.end - tensor.begin) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' needs ", bits.value() / 8,
                                                   " bytes by shape and dtype; ", "data_offsets give ",
                                                   tensor.end - tensor.begin));
  }
  return absl::OkStatus();
}

// The ranges must tile [0, data_bytes).
absl::Status CheckLayout(const std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  std::vector<const TensorInfo*> by_offset;
  by_offset.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) by_offset.push_back(&tensor);
  std::sort(by_offset.begin(), by_offset.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t expected = 0;
  for (const TensorInfo* tensor : by_offset) {
    if (tensor->begin != expected) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor->name, "' begins at ", tensor->begin,
                                                     "; the one before ends at ", expected,
                                                     tensor->begin < expected ? ": they overlap" : ": a hole"));
    }
    expected = tensor->end;
  }
  if (expected == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the tensors need ", expected, " bytes of data; the file has ", data_bytes,
                   expected > data_bytes ? ": it is cut short" : ": bytes are left over"));
}

}  // namespace

absl::StatusOr<std::vector<TensorInfo>> ParseSafetensorsHeader(std::string_view header, uint64_t data_bytes) {
  if (header.size() > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("header has ", header.size(), " bytes; limit is ", kMaxHeaderBytes));
  }
  if (!header.starts_with('{')) return absl::InvalidArgumentError("header does not start with '{'");
  // nlohmann's lexer treats a NUL as the end of the text and would ignore the rest.
  if (header.find('\0') != std::string_view::npos) return absl::InvalidArgumentError("header holds a NUL byte");
  HeaderHandler handler;
  if (!json::sax_parse(header.begin(), header.end(), &handler)) return absl::InvalidArgumentError(handler.fault);

  std::vector<TensorInfo> tensors = std::move(handler.tensors);
  for (const TensorInfo& tensor : tensors) {
    if (absl::Status status = CheckSize(tensor); !status.ok()) return status;
  }
  if (absl::Status status = CheckLayout(tensors, data_bytes); !status.ok()) return status;
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  const auto twin = std::adjacent_find(tensors.begin(), tensors.end(),
                                       [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  if (twin != tensors.end()) return absl::InvalidArgumentError(absl::StrCat("tensor '", twin->name, "' appears twice"));
  return tensors;
}

}  // namespace dunlin::engine
