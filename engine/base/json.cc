// SPDX-License-Identifier: Apache-2.0
#include "engine/base/json.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/number_words.h"
#include "engine/base/string_view.h"

namespace dunlin::engine {
namespace {

using nlohmann::json;

// A value is 16 bytes in a list, which doubles as it grows; an object's member has its key too, and lies in a node or
// in such a list; a list or an object is a block of the allocator's of its own, and holds another.
constexpr size_t kValueTreeBytes = 32;
constexpr size_t kKeyTreeBytes = 96;
constexpr size_t kListTreeBytes = 96;

// Reads a text's events without building anything. json::parse with a callback would look through the parent of every
// object that ends, which takes quadratic time for a list of objects.
class StructureCheck final : public json::json_sax_t {
 public:
  StructureCheck(size_t max_depth, bool unique_keys) : max_depth_(max_depth), unique_keys_(unique_keys) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return Open(); }
  bool start_array(std::size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    if (!unique_keys_ || keys_.back().insert(name).second) return true;
    twin_ = absl::StrCat("key '", name, "' appears twice");
    return false;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  bool too_deep() const { return too_deep_; }
  const std::string& twin() const { return twin_; }  // what to say of the first key that an object has twice, or empty

 private:
  bool Open() {
    keys_.emplace_back();
    too_deep_ = keys_.size() > max_depth_;
    return !too_deep_;
  }
  bool Close() {
    keys_.pop_back();
    return true;
  }

  const size_t max_depth_;
  const bool unique_keys_;
  std::vector<std::set<std::string>> keys_;  // of every open object and list
  bool too_deep_ = false;
  std::string twin_;
};

// Builds the value, with the numbers that stand-ins stand for.
class WordReader final : public nlohmann::detail::json_sax_dom_parser<json> {
 public:
  WordReader(json* value, const NumberWords& words) : json_sax_dom_parser(*value), words_(words) {}

  bool number_float(double value, const std::string& text) {
    return json_sax_dom_parser::number_float(words_.ValueOf(text).value_or(value), text);
  }

 private:
  const NumberWords& words_;
};

absl::Status Malformed(std::string_view where, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(AbslView(where), ": ", AbslView(what)));
}

// Whether the structure is within bounds. What is not JSON passes.
absl::Status CheckStructure(std::string_view text, std::string_view where, bool comments = false) {
  // nlohmann's lexer takes a NUL for the end of the text and would not look at what follows.
  if (text.find('\0') != std::string_view::npos) return Malformed(where, "not valid JSON: it holds a NUL byte");
  StructureCheck check(kMaxJsonDepth, true);
  json::sax_parse(text.begin(), text.end(), &check, json::input_format_t::json, /*strict=*/true, comments);
  if (check.too_deep()) return Malformed(where, absl::StrCat("nested deeper than ", kMaxJsonDepth));
  return check.twin().empty() ? absl::OkStatus() : Malformed(where, check.twin());
}

// read(&value) throws on what is not JSON.
template <class Read>
absl::StatusOr<json> ReadObject(std::string_view text, std::string_view where, Read read) {
  if (absl::Status status = CheckStructure(text, where); !status.ok()) return status;
  json value;
  try {
    read(&value);
  } catch (const std::exception& e) {
    return Malformed(where, absl::StrCat("not valid JSON: ", e.what()));
  }
  if (!value.is_object()) return Malformed(where, "not a JSON object");
  return value;
}

}  // namespace

absl::Status CheckCommentedJson(std::string_view text, std::string_view where) {
  return CheckStructure(text, where, /*comments=*/true);
}

absl::StatusOr<json> ParseJsonObject(std::string_view text, std::string_view where) {
  return ReadObject(text, where, [text](json* value) { *value = json::parse(text.begin(), text.end()); });
}

absl::StatusOr<json> ParsePythonJsonObject(std::string_view text, std::string_view where) {
  const NumberWords words(text);
  const std::string numbers = words.AsNumbers(text);
  return ReadObject(numbers, where, [&](json* value) {
    WordReader reader(value, words);
    json::sax_parse(numbers.begin(), numbers.end(), &reader);
  });
}

size_t JsonTreeBytes(std::string_view text) {
  size_t bytes = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == ',') {
      bytes += kValueTreeBytes;
    } else if (c == ':') {
      bytes += kKeyTreeBytes;
    } else if (c == '[' || c == '{') {
      bytes += kListTreeBytes;
    }
  }
  return bytes;
}

bool IsNestedDeeper(std::string_view text, int max_depth) {
  StructureCheck check(static_cast<size_t>(max_depth), false);
  json::sax_parse(text.begin(), text.end(), &check);
  return check.too_deep();
}

}  // namespace dunlin::engine
