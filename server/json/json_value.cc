// SPDX-License-Identifier: Apache-2.0
#include "server/json/json_value.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/json.h"
#include "engine/base/string_view.h"
#include "server/serving/record/errors.h"
#include "text/utf8.h"

namespace dunlin::server {
namespace {

constexpr size_t kMaxPathKeyBytes = 64;               // of a client's key in a path
constexpr int kNumberOutOfRange = 406;                // nlohmann's exception id
constexpr double kMaxWholeDouble = 9007199254740992;  // 2^53: up to here doubles tell integers apart
const Json kNull;

std::string KeyShown(std::string_view key) {
  return absl::CHexEscape(std::string(key.substr(0, kMaxPathKeyBytes)));
}

// Appends ".key", "key" at the start, or "[index]".
void AppendKey(std::string_view key, std::string* path) {
  if (!path->empty()) path->push_back('.');
  path->append(KeyShown(key));
}
void AppendIndex(size_t index, std::string* path) {
  absl::StrAppend(path, "[", index, "]");
}

// The integer that a number is, also where it is written as 3.0: JSON knows one kind of number. Nothing for fractions,
// and beyond int64_t or, of those with a point, 2^53.
std::optional<int64_t> IntegerOf(const Json& json) {
  if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX}) return std::nullopt;
  if (json.is_number_integer()) return json.get<int64_t>();
  if (!json.is_number_float()) return std::nullopt;
  const auto number = json.get<double>();
  const bool whole = std::abs(number) <= kMaxWholeDouble && std::trunc(number) == number;
  return whole ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
}

absl::Status Malformed(std::string_view name, std::string_view problem) {
  return MakeError(Reason::kMalformedMessage, absl::StrCat(engine::AbslView(name), " ", engine::AbslView(problem)));
}

// Builds the value from the parser's events. The names of its functions are nlohmann's.
class TreeBuilder {
 public:
  explicit TreeBuilder(std::string_view text) : text_(text) {}

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(Json::number_integer_t value) { return Add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return Add(value); }
  bool number_float(Json::number_float_t value, const Json::string_t& /*text*/) { return Add(value); }
  bool string(Json::string_t& value) { return Add(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) { return false; }
  bool start_object(size_t /*size*/) { return Open(Json::object()); }
  bool start_array(size_t /*size*/) { return Open(Json::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

  bool key(Json::string_t& name) {
    Level& level = open_.back();
    level.key = std::move(name);
    if (level.json->size() >= kMaxObjectKeys) {
      return Fail(JsonFault::Kind::kBound, "makes too many keys of one object", absl::StrCat(kMaxObjectKeys));
    }
    return level.keys.insert(level.key).second || Fail(JsonFault::Kind::kTwice, "appears twice", "");
  }

  bool parse_error(size_t byte, const std::string& /*token*/, const Json::exception& error) {
    if (error.id == kNumberOutOfRange) {
      return Fail(JsonFault::Kind::kNumber, "is a number out of range", "IEEE 754 double precision");
    }
    const char* const form = text::IsValidUtf8(text_) ? "valid JSON" : "UTF-8";
    fault_ = {JsonFault::Kind::kMalformed, "", absl::StrCat("is not ", form, ": error at byte ", byte), ""};
    return false;
  }

  JsonFault TakeFault() { return std::move(fault_); }
  Json Take() { return std::move(root_); }

 private:
  struct Level {
    Json* json;  // its address is stable: nothing is added to an open value's parent
    std::string key;
    absl::flat_hash_set<std::string> keys;
  };

  bool Fail(JsonFault::Kind kind, std::string problem, std::string limit) {
    fault_ = {kind, Path(), std::move(problem), std::move(limit)};
    return false;
  }

  // Of the value that comes next.
  std::string Path() const {
    std::string path;
    for (const Level& level : open_) {
      if (level.json->is_array()) {
        // An open element has been added already.
        AppendIndex(level.json->size() - (&level == &open_.back() ? 0 : 1), &path);
      } else if (!level.key.empty()) {
        AppendKey(level.key, &path);
      }
    }
    return path;
  }

  bool Add(Json value) { return Append(std::move(value)) != nullptr; }

  Json* Append(Json value) {
    if (++num_values_ > kMaxBodyValues) {
      Fail(JsonFault::Kind::kBound, "makes too many values", absl::StrCat(kMaxBodyValues));
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = open_.back();
    if (auto* array = level.json->get_ptr<Json::array_t*>(); array != nullptr) {
      array->push_back(std::move(value));
      return &array->back();
    }
    // Not through ordered_map, which would compare all keys with the new one.
    auto& members = static_cast<Json::object_t::Container&>(*level.json->get_ptr<Json::object_t*>());
    members.emplace_back(level.key, std::move(value));
    return &members.back().second;
  }

  bool Open(Json value) {
    if (open_.size() >= kMaxBodyDepth) {
      return Fail(JsonFault::Kind::kBound, "is nested too deeply", absl::StrCat(kMaxBodyDepth));
    }
    Json* json = Append(std::move(value));
    if (json == nullptr) return false;
    open_.push_back({json, {}, {}});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const std::string_view text_;
  Json root_;
  std::vector<Level> open_;
  size_t num_values_ = 0;
  JsonFault fault_ = {};
};

}  // namespace

std::optional<JsonFault> ParseJson(std::string_view text, Json* value) {
  if (engine::JsonTreeBytes(text) > kMaxBodyTreeBytes) {
    return JsonFault{JsonFault::Kind::kBound, "", "holds too many values, lists and objects",
                     absl::StrCat(kMaxBodyTreeBytes >> 20U, " MiB of memory for them")};
  }
  // nlohmann's lexer takes a NUL for the end of the text and would not look at what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return JsonFault{JsonFault::Kind::kMalformed, "", absl::StrCat("is not valid JSON: error at byte ", nul + 1), ""};
  }
  TreeBuilder builder(text);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return builder.TakeFault();
  *value = builder.Take();
  return std::nullopt;
}

absl::StatusOr<Json> ParseBody(std::string_view body, std::string_view name) {
  if (body.empty()) return Malformed(name, "is empty, not a JSON object");
  Json value;
  if (const std::optional<JsonFault> fault = ParseJson(body, &value)) {
    if (fault->kind == JsonFault::Kind::kMalformed) return Malformed(name, fault->problem);
    return InvalidField(fault->path.empty() ? name : fault->path, fault->problem, fault->limit);
  }
  if (!value.is_object()) return Malformed(name, "is not a JSON object");
  return value;
}

bool IsJsonObject(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || text[start] != '{') return false;
  // nlohmann's lexer takes a NUL for the end of the text.
  return text.find('\0') == std::string_view::npos && Json::accept(text);
}

std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

JsonValue JsonValue::At(std::string_view key) const {
  const auto found = json_->find(std::string(key));
  return {found == json_->end() ? kNull : *found, this, key, 0};
}

JsonValue JsonValue::At(size_t index) const {
  return {(*json_)[index], this, {}, index};
}

std::string JsonValue::Path() const {
  if (parent_ == nullptr) return "";
  std::string path = parent_->Path();
  if (parent_->is_array()) {
    AppendIndex(index_, &path);
  } else {
    AppendKey(key_, &path);
  }
  return path;
}

std::string JsonValue::Place() const {
  if (parent_ == nullptr) return "";
  std::string place = parent_->Place();
  if (parent_->is_array()) {
    place.append("[]");
  } else {
    AppendKey(key_, &place);
  }
  return place;
}

void JsonValue::Ignore() const {
  if (ignored_ == nullptr) return Fail("is not a field of this request", "");
  if (!is_null()) ignored_->Add(Place());
}

void JsonValue::IgnoreAllBut(std::string_view known) const {
  const std::vector<absl::string_view> names = absl::StrSplit(engine::AbslView(known), ' ');
  for (const auto& member : json_->items()) {
    if (std::find(names.begin(), names.end(), member.key()) == names.end()) Of(member.key(), member.value()).Ignore();
  }
}

void JsonValue::LeaveOut(std::string_view type, std::string_view limit) const {
  if (ignored_ == nullptr) return At(type).FailName("type", limit);
  const auto* name = At(type).json().get_ptr<const std::string*>();
  const std::string list = parent_->Place();
  ignored_->Add(absl::StrCat(list, "[", name == nullptr ? "" : *name, "]"));
}

void JsonValue::Fail(std::string_view problem, std::string_view limit) const {
  if (!status_->ok()) return;
  const std::string path = Path();
  *status_ = InvalidField(path.empty() ? "the body" : path, problem, limit);
}

void JsonValue::FailName(std::string_view noun, std::string_view limit) const {
  const auto* text = json_->get_ptr<const std::string*>();
  Fail(text == nullptr ? Shown() : UnknownName(*text, noun), limit);
}

std::string JsonValue::Shown() const {
  switch (json_->type()) {
    case Json::value_t::null:
      return "is missing";
    case Json::value_t::object:
      return "is an object";
    case Json::value_t::array:
      return "is an array";
    case Json::value_t::string:
      return "is a string";
    default:
      return absl::StrCat("is ", DumpJson(*json_));
  }
}

bool JsonValue::ExpectObject() const {
  if (!is_object()) Fail(Shown(), "an object");
  return is_object();
}

bool JsonValue::ExpectArray() const {
  if (!is_array()) Fail(Shown(), "an array");
  return is_array();
}

bool JsonValue::ExpectText() const {
  if (!is_string()) Fail(Shown(), "a string");
  return is_string();
}

std::string JsonValue::Text() const {
  return ExpectText() ? json_->get<std::string>() : std::string();
}

bool JsonValue::Bool() const {
  if (!json_->is_boolean()) Fail(Shown(), "true or false");
  return json_->is_boolean() && json_->get<bool>();
}

int64_t JsonValue::Integer(int64_t min, int64_t max) const {
  const std::optional<int64_t> integer = IntegerOf(*json_);
  if (integer.has_value() && *integer >= min && *integer <= max) return *integer;
  Fail(Shown(), absl::StrCat("an integer in [", min, ", ", max, "]"));
  return 0;
}

int32_t JsonValue::Int() const {
  using Bounds = std::numeric_limits<int32_t>;
  return static_cast<int32_t>(Integer(Bounds::min(), Bounds::max()));
}

int32_t JsonValue::AtLeast(int32_t min) const {
  return static_cast<int32_t>(Integer(min, std::numeric_limits<int32_t>::max()));
}

uint64_t JsonValue::Unsigned64() const {
  if (json_->is_number_unsigned()) return json_->get<uint64_t>();
  if (const std::optional<int64_t> integer = IntegerOf(*json_)) return static_cast<uint64_t>(*integer);
  Fail(Shown(), "an integer in [-2^63, 2^64)");
  return 0;
}

float JsonValue::Number() const {
  const double number = json_->is_number() ? json_->get<double>() : NAN;
  const double max = std::numeric_limits<float>::max();
  if (!(std::abs(number) <= max)) {
    Fail(Shown(), json_->is_number() ? "single precision" : "a number");
    return 0.0F;
  }
  return static_cast<float>(number);
}

std::vector<std::string> JsonValue::Texts() const {
  std::vector<std::string> texts;
  if (!ExpectArray()) return texts;
  texts.reserve(size());
  for (size_t i = 0; i < size() && ok(); ++i) texts.push_back(At(i).Text());
  return texts;
}

std::vector<std::string> JsonValue::TextOrTexts() const {
  if (is_string()) return {Text()};
  if (is_array()) return Texts();
  Fail(Shown(), "a string or an array of strings");
  return {};
}

std::vector<engine::TokenId> JsonValue::TokenIds() const {
  std::vector<engine::TokenId> ids;
  if (!ExpectArray()) return ids;
  ids.reserve(size());
  for (size_t i = 0; i < size() && ok(); ++i) ids.push_back(At(i).Int());
  return ids;
}

}  // namespace dunlin::server
