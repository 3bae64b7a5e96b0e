// SPDX-License-Identifier: Apache-2.0
// The schemas of a function's parameters, one by one: for forms of calls that write each argument by itself.
// Pure functions, any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_output/tool_set.h"

namespace dunlin::text {

class GrammarParts;

struct Parameter {
  std::string name;
  nlohmann::ordered_json schema;
  bool required = false;
};

// Whether objects are the arguments of a function, as its schema has it.
bool TakesObject(const ToolSet::Tool& tool);
inline constexpr std::string_view kNoObject = "has parameters that are no object";

// Those that are required first. Refused in *parts: what a schema says of the object beyond its properties, and a
// parameter whose name is_name does not take.
std::vector<Parameter> ParametersOf(const ToolSet::Tool& tool, bool (*is_name)(std::string_view name),
                                    GrammarParts* parts);

// A parameter's schema as one of its own, with all that it refers to.
std::string StandaloneSchema(const ToolSet::Tool& tool, const Parameter& parameter);

// Adds it to *parts; how it is referred to.
std::string AddParameter(const ToolSet::Tool& tool, const Parameter& parameter, GrammarParts* parts);

// Whether a keyword of JSON Schema says nothing about values.
bool IsAnnotation(std::string_view keyword);

// Whether a schema says no more than the types of a value, itself or as one of several options.
bool SaysTypesOnly(const nlohmann::ordered_json& schema);

// The texts that a schema allows, where it is a list of texts without `end` in them; nullopt: it is not.
std::optional<std::vector<std::string>> TextChoices(const nlohmann::ordered_json& schema, std::string_view end);

// Refuses in *parts a text that a schema says more of than its type.
void RefuseText(const ToolSet::Tool& tool, std::string_view parameter, GrammarParts* parts);

}  // namespace dunlin::text
