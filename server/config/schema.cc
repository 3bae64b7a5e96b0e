// SPDX-License-Identifier: Apache-2.0
// The key table as a JSON Schema, for editors and for the loader's tests.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "server/config/key_table.h"
#include "server/config/validate.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

Json WordSchema(const ConfigKey& key) {
  Json schema = {{"type", "string"}};
  if (key.choices != nullptr) {
    schema["enum"] = std::vector<std::string>(absl::StrSplit(key.choices, '|'));
  } else if (key.type == KeyType::kString) {
    schema["minLength"] = key.min;
    schema["maxLength"] = key.max;
  }
  return schema;
}

Json KeySchema(const ConfigKey& key) {
  Json schema;
  switch (key.type) {
    case KeyType::kString:
      schema = WordSchema(key);
      break;
    case KeyType::kInteger:
      schema = {{"type", "integer"}, {"minimum", key.min}, {"maximum", key.max}};
      break;
    case KeyType::kIntegerOrAuto:
      schema = {{"anyOf", {{{"const", "auto"}}, {{"type", "integer"}, {"minimum", key.min}, {"maximum", key.max}}}}};
      break;
    case KeyType::kBool:
      schema = {{"type", "boolean"}};
      break;
    case KeyType::kStringList:
      schema = {{"type", "array"},
                {"items", WordSchema(key)},
                {"minItems", key.min},
                {"maxItems", key.max},
                {"uniqueItems", true}};
      break;
  }
  schema["description"] = key.description;
  if (key.default_json != nullptr) schema["default"] = Json::parse(key.default_json);
  return schema;
}

// The schema of section `name` of `object` (of its items for a list), created if missing.
Json& Section(Json& object, const std::string& name) {
  if (object.contains("properties") && object["properties"].contains(name)) {
    Json& known = object["properties"][name];
    return known.contains("items") ? known["items"] : known;
  }
  const bool is_list = name.size() > 2 && name.substr(name.size() - 2) == "[]";
  const std::string word = is_list ? name.substr(0, name.size() - 2) : name;
  if (is_list && object["properties"].contains(word)) return object["properties"][word]["items"];
  Json section = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
  if (!is_list) return object["properties"][word] = section;
  object["properties"][word] = {{"type", "array"}, {"minItems", word == "models" ? 1 : 0}, {"items", section}};
  return object["properties"][word]["items"];
}

}  // namespace

Json ConfigSchema() {
  Json root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
               {"title", "Dunlin server configuration"},
               {"type", "object"},
               {"additionalProperties", false},
               {"required", {"models"}},
               {"properties", Json::object()}};
  for (const ConfigKey& key : ConfigKeys()) {
    const std::vector<std::string> names = absl::StrSplit(key.path, '.');
    Json* at = &root;
    for (size_t i = 0; i + 1 < names.size(); ++i) at = &Section(*at, names[i]);
    (*at)["properties"][names.back()] = KeySchema(key);
    if (key.default_json == nullptr) (*at)["required"].push_back(names.back());
    if (names.back() == "enabled") (*at)["type"] = {"boolean", "object"};
    if (names.back() == "tokens") (*at)["type"] = {"string", "integer", "object"};
  }
  return root;
}

}  // namespace dunlin::server
