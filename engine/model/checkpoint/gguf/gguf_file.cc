// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/model/checkpoint/gguf/gguf_cursor.h"

namespace dunlin::engine {
namespace {

GgufRead ReaderOf(const File& file) {
  return [&file](uint64_t offset, std::span<std::byte> out) { return file.ReadAt(offset, out); };
}

bool IsInteger(GgufType type) {
  return type != GgufType::kF32 && type != GgufType::kF64 && ElementBytes(type) != 0;
}

bool IsSigned(GgufType type) {
  return type == GgufType::kI8 || type == GgufType::kI16 || type == GgufType::kI32 || type == GgufType::kI64;
}

}  // namespace

absl::StatusOr<GgufFile> GgufFile::Open(const Directory& directory, std::string_view name) {
  absl::StatusOr<File> file = directory.OpenFile(name);
  if (!file.ok()) return file.status();
  absl::StatusOr<GgufHeader> header = ParseGgufHeader(file->size(), ReaderOf(*file));
  if (!header.ok()) {
    return absl::Status(header.status().code(), absl::StrCat(AbslView(name), ": ", header.status().message()));
  }
  return GgufFile(*std::move(file), *std::move(header));
}

const GgufValue* GgufFields::Find(std::string_view key) const {
  const auto found = file_.header().metadata.find(key);
  return found == file_.header().metadata.end() ? nullptr : &found->second;
}

void GgufFields::Fail(std::string_view key, const std::string& what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(file_.file().name(), ": ", AbslView(key), " ", what));
}

// A number of any type; none for strings. Integers above 2^53 are rounded: no field here reaches them.
std::optional<double> GgufFields::Scalar(const GgufValue& value, uint64_t bits) const {
  if (value.type == GgufType::kF32) {
    return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  if (value.type == GgufType::kF64) return std::bit_cast<double>(bits);
  if (!IsInteger(value.type)) return std::nullopt;
  if (!IsSigned(value.type)) return static_cast<double>(bits);
  const auto unused = static_cast<int>(64 - 8 * ElementBytes(value.type));
  return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
}

std::vector<double> GgufFields::Elements(std::string_view key, const GgufValue& value, uint64_t max_count) {
  if (value.count > max_count) {
    Fail(key, absl::StrCat("has ", value.count, " elements; limit is ", max_count));
    return {};
  }
  const uint32_t bytes = ElementBytes(value.type);
  if (bytes == 0) {
    Fail(key, "must be an array of numbers");
    return {};
  }
  const GgufRead read = ReaderOf(file_.file());
  GgufCursor cursor(file_.file().size(), read, value.offset);
  std::vector<double> numbers;
  numbers.reserve(value.count);
  for (uint64_t i = 0; i < value.count; ++i) numbers.push_back(Scalar(value, cursor.Unsigned(bytes)).value_or(0.0));
  if (status_.ok()) status_ = cursor.status();
  return numbers;
}

std::optional<double> GgufFields::Number(std::string_view key) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<double> number = value->is_array ? std::nullopt : Scalar(*value, value->bits);
  if (number.has_value() && std::isfinite(*number)) return number;
  Fail(key, "must be a finite number");
  return std::nullopt;
}

std::optional<int64_t> GgufFields::Int(std::string_view key, int64_t min, int64_t max) {
  constexpr uint64_t kMaxListedLayers = 4096;
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!IsInteger(value->type)) {
    Fail(key, "must be an integer");
    return std::nullopt;
  }
  std::vector<double> numbers = {Scalar(*value, value->bits).value_or(0.0)};
  if (value->is_array) numbers = Elements(key, *value, kMaxListedLayers);
  if (!status_.ok()) return std::nullopt;
  if (numbers.empty() || std::any_of(numbers.begin(), numbers.end(), [&](double n) { return n != numbers[0]; })) {
    Fail(key, "has a value per layer, and they differ, which is not supported");
    return std::nullopt;
  }
  if (numbers[0] < static_cast<double>(min) || numbers[0] > static_cast<double>(max)) {
    const bool exact = std::abs(numbers[0]) < 0x1p53;
    Fail(key, absl::StrCat("is ", exact ? absl::StrCat(static_cast<int64_t>(numbers[0])) : absl::StrCat(numbers[0]),
                           "; limit is [", min, ", ", max, "]"));
    return std::nullopt;
  }
  return static_cast<int64_t>(numbers[0]);
}

std::optional<bool> GgufFields::Bool(std::string_view key) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array && value->type == GgufType::kBool) return value->bits != 0;
  Fail(key, "must be a boolean");
  return std::nullopt;
}

std::string GgufFields::Text(std::string_view key, uint64_t limit) {
  const GgufValue* value = Find(key);
  if (value == nullptr || !status_.ok()) return "";
  if (value->is_array || value->type != GgufType::kString) {
    Fail(key, "must be a string");
    return "";
  }
  if (value->count > limit) {
    Fail(key, absl::StrCat("has ", value->count, " bytes; limit is ", limit));
    return "";
  }
  std::string text(value->count, '\0');
  status_ = file_.file().ReadAt(value->offset, std::as_writable_bytes(std::span(text)));
  return status_.ok() ? text : "";
}

std::vector<std::string> GgufFields::Texts(std::string_view key, uint64_t max_count, uint64_t max_bytes) {
  const GgufValue* value = Find(key);
  if (value == nullptr || !status_.ok()) return {};
  if (!value->is_array || value->type != GgufType::kString) {
    Fail(key, "must be an array of strings");
    return {};
  }
  if (value->count > max_count) {
    Fail(key, absl::StrCat("has ", value->count, " strings; limit is ", max_count));
    return {};
  }
  const GgufRead read = ReaderOf(file_.file());
  GgufCursor cursor(file_.file().size(), read, value->offset);
  std::vector<std::string> texts;
  texts.reserve(value->count);
  for (uint64_t i = 0; i < value->count && cursor.status().ok(); ++i) {
    texts.push_back(cursor.Text(max_bytes, "a string"));
    max_bytes -= std::min<uint64_t>(max_bytes, texts.back().size());
  }
  if (cursor.status().ok()) return texts;
  Fail(key, std::string(cursor.status().message()));
  return {};
}

std::vector<double> GgufFields::Numbers(std::string_view key, uint64_t max_count) {
  const GgufValue* value = Find(key);
  if (value == nullptr || !status_.ok()) return {};
  if (value->is_array) return Elements(key, *value, max_count);
  Fail(key, "must be an array of numbers");
  return {};
}

}  // namespace dunlin::engine
