// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/value_schema.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"
#include "text/chat_output/json_scanner.h"

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kMaxSchemaDepth = 16;     // of options in options
constexpr int kMaxSchemaVisits = 1000;  // references to what they stand in would be followed without end

const Json* MemberOf(const Json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found == object.end() ? nullptr : &*found;
}

// Goes through a schema, what it refers to and its options, until visit() returns true.
class SchemaWalk {
 public:
  explicit SchemaWalk(const Json& root) : root_(root) {}

  // NOLINTNEXTLINE(misc-no-recursion): kMaxSchemaDepth
  template <typename Visit>
  bool Go(const Json& schema, const Visit& visit, int depth = 0) {
    if (!schema.is_object() || depth > kMaxSchemaDepth || ++visits_ > kMaxSchemaVisits) return false;
    if (visit(schema)) return true;
    if (const Json* ref = MemberOf(schema, "$ref"); ref != nullptr && ref->is_string()) {
      const Json* target = ReferredSchema(root_, ref->get_ref<const std::string&>());
      if (target != nullptr && Go(*target, visit, depth + 1)) return true;
    }
    for (const char* list : {"anyOf", "oneOf", "allOf"}) {
      const Json* options = MemberOf(schema, list);
      if (options == nullptr || !options->is_array()) continue;
      for (const Json& option : *options) {
        if (Go(option, visit, depth + 1)) return true;
      }
    }
    return false;
  }

 private:
  const Json& root_;
  int visits_ = 0;
};

// The first part of a schema that find() finds in it; null: none.
template <typename Find>
const Json* FindPart(const Json& root, const Json& schema, const Find& find) {
  const Json* part = nullptr;
  SchemaWalk(root).Go(schema, [&part, &find](const Json& visited) {
    part = find(visited);
    return part != nullptr;
  });
  return part;
}

// The names of the types that a schema allows; empty: it does not say.
class Types {
 public:
  Types(const Json& root, const Json& schema) {
    SchemaWalk(root).Go(schema, [this](const Json& visited) {
      Add(visited);
      return false;
    });
  }

  bool empty() const { return names_.empty(); }
  bool Has(std::string_view type) const { return names_.contains(type); }
  bool HasOthersThanStrings() const {
    return std::any_of(names_.begin(), names_.end(), [](std::string_view name) { return name != "string"; });
  }

 private:
  void Add(const Json& schema) {
    if (const Json* type = MemberOf(schema, "type")) {
      AddNames(*type);
    } else if (const Json* choices = MemberOf(schema, "enum"); choices != nullptr && choices->is_array()) {
      for (const Json& choice : *choices) names_.emplace(TypeOf(choice));
    } else if (const Json* value = MemberOf(schema, "const")) {
      names_.emplace(TypeOf(*value));
    }
  }
  void AddNames(const Json& type) {
    if (type.is_string()) names_.insert(type.get_ref<const std::string&>());
    if (!type.is_array()) return;
    for (const Json& one : type) {
      if (one.is_string()) names_.insert(one.get_ref<const std::string&>());
    }
  }
  static const char* TypeOf(const Json& value) {
    if (value.is_null()) return "null";
    if (value.is_boolean()) return "boolean";
    if (value.is_number_float()) return "number";
    if (value.is_number()) return "integer";
    if (value.is_string()) return "string";
    return value.is_object() ? "object" : "array";
  }

  std::set<std::string_view> names_;  // of the schema: each once, however often the walk comes by
};

// Whether a text, which is JSON, is a value of one of the types, and no string.
bool Allows(const Types& types, std::string_view json) {
  switch (json[0]) {
    case '{':
      return types.Has("object");
    case '[':
      return types.Has("array");
    case 't':
    case 'f':
      return types.Has("boolean");
    case 'n':
      return types.Has("null");
    case '"':
      return false;
    default:
      return types.Has("number") || (types.Has("integer") && json.find_first_of(".eE") == std::string_view::npos);
  }
}

std::string_view WordInJson(std::string_view word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  return word == "None" ? "null" : word;
}

}  // namespace

ValueSchema ValueSchema::Member(std::string_view name) const {
  if (schema_ == nullptr) return {};
  const auto member = [name](const Json& schema) -> const Json* {
    const Json* properties = MemberOf(schema, "properties");
    const Json* named = properties != nullptr && properties->is_object() ? MemberOf(*properties, name) : nullptr;
    if (named != nullptr) return named;
    const Json* rest = MemberOf(schema, "additionalProperties");
    return rest != nullptr && rest->is_object() ? rest : nullptr;
  };
  return {root_, FindPart(*root_, *schema_, member)};
}

ValueSchema ValueSchema::Items() const {
  if (schema_ == nullptr) return {};
  const auto items = [](const Json& schema) -> const Json* {
    const Json* all = MemberOf(schema, "items");
    return all != nullptr && all->is_object() ? all : nullptr;
  };
  return {root_, FindPart(*root_, *schema_, items)};
}

ParameterText ValueSchema::text() const {
  if (schema_ == nullptr) return ParameterText::kText;
  const Types types(*root_, *schema_);
  if (!types.HasOthersThanStrings()) return ParameterText::kText;
  return types.Has("string") ? ParameterText::kEither : ParameterText::kJson;
}

bool ValueSchema::says_types() const {
  return schema_ != nullptr && !Types(*root_, *schema_).empty();
}

bool ValueSchema::Names(std::string_view type) const {
  return schema_ != nullptr && Types(*root_, *schema_).Has(type);
}

std::string ValueSchema::ToJson(std::string_view text) const {
  if (schema_ == nullptr) return JsonQuoted(text);
  const Types types(*root_, *schema_);
  const std::string_view trimmed = engine::StdView(absl::StripAsciiWhitespace(engine::AbslView(text)));
  const std::string_view word = WordInJson(trimmed);
  return IsJson(word) && Allows(types, word) ? std::string(word) : JsonQuoted(text);
}

const Json* ReferredSchema(const Json& root, std::string_view reference) {
  if (reference.empty() || reference[0] != '#') return nullptr;
  const Json* found = &root;
  for (const absl::string_view step : absl::StrSplit(engine::AbslView(reference.substr(1)), '/')) {
    if (step.empty()) continue;  // before the first '/'
    if (!found->is_object()) return nullptr;
    const auto next = found->find(absl::StrReplaceAll(step, {{"~1", "/"}, {"~0", "~"}}));
    if (next == found->end()) return nullptr;
    found = &*next;
  }
  return found;
}

std::string JsonOrQuoted(std::string_view text) {
  const std::string_view word = WordInJson(engine::StdView(absl::StripAsciiWhitespace(engine::AbslView(text))));
  return IsJson(word) ? std::string(word) : JsonQuoted(text);
}

void AppendJsonEscaped(std::string_view text, std::string* out) {
  for (const char c : text) {
    switch (c) {
      case '"':
      case '\\':
        out->push_back('\\');
        out->push_back(c);
        break;
      case '\n':
        out->append("\\n");
        break;
      case '\t':
        out->append("\\t");
        break;
      case '\r':
        out->append("\\r");
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          absl::StrAppendFormat(out, "\\u%04x", static_cast<unsigned>(c));
        } else {
          out->push_back(c);
        }
    }
  }
}

std::string JsonQuoted(std::string_view text) {
  std::string out = "\"";
  AppendJsonEscaped(text, &out);
  out.push_back('"');
  return out;
}

}  // namespace dunlin::text
