// SPDX-License-Identifier: Apache-2.0
#include "engine/base/json.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace dunlin::engine {
namespace {

using nlohmann::json;

// Called for every event of the parser. The parser is iterative, so a fault can be reported after it returns.
class StrictnessCheck {
 public:
  bool operator()(int /*depth*/, json::parse_event_t event, const json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        keys_.emplace_back();
        if (keys_.size() > kMaxJsonDepth) Fail(absl::StrCat("nested deeper than ", kMaxJsonDepth));
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key:
        if (const auto* key = parsed.get_ptr<const std::string*>(); !keys_.back().insert(*key).second) {
          Fail(absl::StrCat("key '", *key, "' appears twice"));
        }
        break;
      case json::parse_event_t::value:
        break;
    }
    return true;
  }

  const std::string& fault() const { return fault_; }

 private:
  void Fail(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
  }

  std::vector<std::set<std::string>> keys_;  // of every open object
  std::string fault_;                        // the first, or empty
};

}  // namespace

absl::StatusOr<json> ParseJsonObject(std::string_view text, std::string_view where) {
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(AbslView(where), ": ", what));
  };
  // nlohmann's lexer takes a NUL for the end of the text and would not look at what follows.
  if (text.find('\0') != std::string_view::npos) return error("not valid JSON: it holds a NUL byte");
  StrictnessCheck check;
  json value;
  try {
    value = json::parse(text.begin(), text.end(), [&check](int depth, json::parse_event_t event, json& parsed) {
      return check(depth, event, parsed);
    });
  } catch (const std::exception& e) {
    return error(absl::StrCat("not valid JSON: ", e.what()));
  }
  if (!check.fault().empty()) return error(check.fault());
  if (!value.is_object()) return error("not a JSON object");
  return value;
}

}  // namespace dunlin::engine
