// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/field_value.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "server/fronts/kserve/json_object.h"
#include "server/serving/record/errors.h"
#include "text/utf8.h"

namespace dunlin::server::kserve {
namespace {

constexpr int kMaxFieldsDepth = 32;
constexpr size_t kMaxJsonFields = 256;

// A whole number in [-2^63, 2^64), as 65 bits would hold it.
struct Whole {
  bool negative;
  uint64_t bits;  // two's complement if negative
};

std::optional<Whole> WholeOf(const Scalar& element) {
  if (const auto* value = std::get_if<int64_t>(&element)) return Whole{*value < 0, static_cast<uint64_t>(*value)};
  if (const auto* value = std::get_if<uint64_t>(&element)) return Whole{false, *value};
  if (const auto* value = std::get_if<double>(&element)) {
    if (std::trunc(*value) != *value || std::abs(*value) > 9007199254740992.0) return std::nullopt;  // 2^53
    const auto number = static_cast<int64_t>(*value);
    return Whole{number < 0, static_cast<uint64_t>(number)};
  }
  if (const auto* text = std::get_if<std::string>(&element)) {
    int64_t number = 0;
    uint64_t large = 0;
    if (absl::SimpleAtoi(*text, &number)) return Whole{number < 0, static_cast<uint64_t>(number)};
    if (absl::SimpleAtoi(*text, &large)) return Whole{false, large};
  }
  return std::nullopt;
}

Scalar ScalarOf(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void FieldValue::Fail(std::string_view problem, std::string_view limit) const {
  if (status_->ok()) *status_ = InvalidField(PrintableName(name_), problem, limit);
}

const Scalar* FieldValue::Only() const {
  if (elements_.size() == 1) return elements_.data();
  Fail(absl::StrCat("has ", elements_.size(), " elements"), "1 element");
  return nullptr;
}

bool FieldValue::Bool() const {
  const Scalar* element = Only();
  if (element == nullptr) return false;
  if (const bool* value = std::get_if<bool>(element)) return *value;
  bool value = false;
  const auto* text = std::get_if<std::string>(element);
  if (text == nullptr || !absl::SimpleAtob(*text, &value)) Fail("is not a boolean", "true, false");
  return value;
}

int32_t FieldValue::IntOf(const Scalar& element) const {
  const std::optional<Whole> whole = WholeOf(element);
  const auto number = whole.has_value() ? static_cast<int64_t>(whole->bits) : 0;
  const bool fits = whole.has_value() && whole->negative == (number < 0) &&
                    number >= std::numeric_limits<int32_t>::min() && number <= std::numeric_limits<int32_t>::max();
  if (!fits) Fail("is not a 32-bit integer", "[-2147483648, 2147483647]");
  return fits ? static_cast<int32_t>(number) : 0;
}

int32_t FieldValue::Int() const {
  const Scalar* element = Only();
  return element == nullptr ? 0 : IntOf(*element);
}

uint64_t FieldValue::Unsigned64() const {
  const Scalar* element = Only();
  if (element == nullptr) return 0;
  const std::optional<Whole> whole = WholeOf(*element);
  if (!whole.has_value()) Fail("is not an integer", "a 64-bit integer");
  return whole.has_value() ? whole->bits : 0;
}

float FieldValue::Number() const {
  const Scalar* element = Only();
  if (element == nullptr) return 0.0F;
  double number = std::numeric_limits<double>::quiet_NaN();
  if (const auto* value = std::get_if<double>(element)) number = *value;
  if (const auto* value = std::get_if<int64_t>(element)) number = static_cast<double>(*value);
  if (const auto* value = std::get_if<uint64_t>(element)) number = static_cast<double>(*value);
  if (const auto* text = std::get_if<std::string>(element); text != nullptr && !absl::SimpleAtod(*text, &number)) {
    number = std::numeric_limits<double>::quiet_NaN();
  }
  const bool fits = std::abs(number) <= double{std::numeric_limits<float>::max()};  // false for NaN
  if (!fits) Fail("is not a number", "a finite 32-bit float");
  return fits ? static_cast<float>(number) : 0.0F;
}

std::string FieldValue::TextOf(const Scalar& element) const {
  const auto* text = std::get_if<std::string>(&element);
  if (text != nullptr && text::IsValidUtf8(*text)) return *text;
  Fail("is not text", "BYTES of UTF-8");
  return {};
}

std::string FieldValue::Text() const {
  const Scalar* element = Only();
  if (element == nullptr) return {};
  return TextOf(*element);
}

std::vector<std::string> FieldValue::Texts() const {
  std::vector<std::string> texts;
  for (const Scalar& element : elements_) texts.push_back(TextOf(element));
  return texts;
}

std::vector<engine::TokenId> FieldValue::TokenIds() const {
  std::vector<engine::TokenId> ids;
  for (const Scalar& element : elements_) ids.push_back(IntOf(element));
  return ids;
}

absl::StatusOr<std::vector<JsonField>> ReadJsonFields(std::string_view field, std::string_view text) {
  if (engine::IsNestedDeeper(text, kMaxFieldsDepth)) {
    return InvalidField(field, "is nested too deeply", absl::StrCat(kMaxFieldsDepth, " levels"));
  }
  const absl::StatusOr<Json> object = ParseObject(field, text);
  if (!object.ok()) return object.status();
  if (object->size() > kMaxJsonFields) {
    return InvalidField(field, absl::StrCat("has ", object->size(), " members"), absl::StrCat(kMaxJsonFields));
  }
  std::vector<JsonField> fields;
  for (const auto& member : object->items()) {
    if (member.value().is_null()) continue;
    JsonField& read = fields.emplace_back(JsonField{member.key(), {}});
    if (!member.value().is_array()) {
      read.elements.push_back(ScalarOf(member.value()));
      continue;
    }
    if (member.value().size() > kMaxTensorElements) {
      return InvalidField(PrintableName(member.key()), "is too long", absl::StrCat(kMaxTensorElements, " elements"));
    }
    for (const Json& element : member.value()) read.elements.push_back(ScalarOf(element));
  }
  // Of two names of one field the later one counts, whatever the order of a client's map.
  std::sort(fields.begin(), fields.end(), [](const JsonField& a, const JsonField& b) { return a.name < b.name; });
  return fields;
}

}  // namespace dunlin::server::kserve
