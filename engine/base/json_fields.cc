// SPDX-License-Identifier: Apache-2.0
#include "engine/base/json_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

using nlohmann::json;

constexpr size_t kMaxShownBytes = 48;

std::string Shown(const json& value) {
  // dump() has null for these.
  if (value.is_number_float() && !std::isfinite(value.get<double>())) return absl::StrCat(value.get<double>());
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kMaxShownBytes) text = text.substr(0, kMaxShownBytes) + "...";
  return text;
}

}  // namespace

JsonFields::JsonFields(const json& object, std::string where) : object_(object), where_(std::move(where)) {}

const json* JsonFields::Find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonFields::Has(const char* name) const {
  return Find(name) != nullptr;
}

bool JsonFields::Mentions(const char* name) const {
  return object_.contains(name);
}

void JsonFields::Fail(const std::string& what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": ", what));
}

void JsonFields::Adopt(const absl::Status& nested) {
  if (status_.ok()) status_ = nested;
}

void JsonFields::Require(const char* name) {
  if (!Has(name)) Fail(absl::StrCat(name, " is missing"));
}

int64_t JsonFields::ToInt(const char* name, const json& value, int64_t min, int64_t max) {
  if (!value.is_number_integer()) {
    Fail(absl::StrCat(name, " is ", Shown(value), "; must be an integer"));
    return min;
  }
  const bool too_large = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t number = too_large ? INT64_MAX : value.get<int64_t>();
  if (too_large || number < min || number > max) {
    Fail(absl::StrCat(name, " is ", Shown(value), "; limit is [", min, ", ", max, "]"));
    return min;
  }
  return number;
}

bool JsonFields::IsText(const char* name, const char* text) const {
  const json* value = Find(name);
  return value != nullptr && value->is_string() && value->get_ref<const std::string&>() == text;
}

bool JsonFields::IsList(const char* name) const {
  const json* value = Find(name);
  return value != nullptr && value->is_array();
}

int64_t JsonFields::Int(const char* name, int64_t min, int64_t max) {
  Require(name);
  return IntOr(name, min, max, min);
}

int64_t JsonFields::IntOr(const char* name, int64_t min, int64_t max, int64_t fallback) {
  const json* value = Find(name);
  return value == nullptr ? fallback : ToInt(name, *value, min, max);
}

double JsonFields::Number(const char* name, double min, double max) {
  Require(name);
  return NumberOr(name, min, max, min);
}

double JsonFields::NumberOr(const char* name, double min, double max, double fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (number >= min && number <= max) return number;
  Fail(value->is_number() ? absl::StrCat(name, " is ", Shown(*value), "; limit is [", min, ", ", max, "]")
                          : absl::StrCat(name, " is ", Shown(*value), "; must be a number"));
  return fallback;
}

bool JsonFields::BoolOr(const char* name, bool fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Fail(absl::StrCat(name, " is ", Shown(*value), "; must be true or false"));
  return fallback;
}

bool JsonFields::FlagOr(const char* name, bool fallback) {
  const json* value = Find(name);
  if (value != nullptr && value->is_number_integer()) return *value != 0;
  return BoolOr(name, fallback);
}

std::string JsonFields::TextOr(const char* name, const std::string& fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  Fail(absl::StrCat(name, " is ", Shown(*value), "; must be a string"));
  return fallback;
}

std::vector<int64_t> JsonFields::IntListOr(const char* name, int64_t min, int64_t max, size_t max_count) {
  const json* value = Find(name);
  if (value == nullptr) return {};
  if (!value->is_array()) return {ToInt(name, *value, min, max)};
  if (value->size() > max_count) {
    Fail(absl::StrCat(name, " has ", value->size(), " entries; limit is ", max_count));
    return {};
  }
  std::vector<int64_t> numbers;
  for (const json& entry : *value) numbers.push_back(ToInt(name, entry, min, max));
  return numbers;
}

std::vector<double> JsonFields::NumberListOr(const char* name, double min, double max, size_t max_count) {
  return NumberOrNullListOr(name, min, max, max_count, NAN);
}

std::vector<double> JsonFields::NumberOrNullListOr(const char* name, double min, double max, size_t max_count,
                                                   double absent) {
  const json* value = Find(name);
  if (value == nullptr) return {};
  std::vector<double> numbers;
  if (value->is_array() && value->size() <= max_count) {
    for (const json& entry : *value) {
      const double number = entry.is_number() ? entry.get<double>() : entry.is_null() ? absent : NAN;
      if (number >= min && number <= max) numbers.push_back(number);
    }
    if (numbers.size() == value->size()) return numbers;
  }
  Fail(absl::StrCat(name, " is ", Shown(*value), "; must be a list of at most ", max_count, " numbers in [", min, ", ",
                    max, "]"));
  return {};
}

JsonFields::Limits JsonFields::LimitsOr(const char* name, const Limits& fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  const auto number_of = [](const json& entry) {
    if (entry.is_number()) return entry.get<double>();
    static const json infinity = {{"__float__", "Infinity"}};
    return entry == infinity ? static_cast<double>(INFINITY) : NAN;
  };
  if (value->is_array() && value->size() == 2) {
    const Limits limits = {number_of((*value)[0]), number_of((*value)[1])};
    if (limits.lower >= 0.0 && std::isfinite(limits.lower) && limits.lower <= limits.upper) return limits;
  }
  Fail(absl::StrCat(name, " is ", Shown(*value), "; must be two numbers, 0 <= lower <= upper"));
  return fallback;
}

std::vector<std::string> JsonFields::TextListOr(const char* name, size_t max_count) {
  const json* value = Find(name);
  if (value == nullptr) return {};
  std::vector<std::string> texts;
  const bool is_list = value->is_array() && value->size() <= max_count;
  if (is_list) {
    for (const json& entry : *value) {
      if (entry.is_string()) texts.push_back(entry.get<std::string>());
    }
  }
  if (is_list && texts.size() == value->size()) return texts;
  Fail(absl::StrCat(name, " is ", Shown(*value), "; must be a list of at most ", max_count, " strings"));
  return {};
}

const json* JsonFields::Object(const char* name) {
  const json* value = Find(name);
  if (value == nullptr || value->is_object()) return value;
  Fail(absl::StrCat(name, " is ", Shown(*value), "; must be an object"));
  return nullptr;
}

}  // namespace dunlin::engine
