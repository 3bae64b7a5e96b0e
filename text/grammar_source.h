// SPDX-License-Identifier: Apache-2.0
// A grammar as a client gives it, or as the server makes one around it; grammar.h compiles it. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dunlin::text {

enum class GrammarKind : uint8_t {
  kJsonSchema,  // text: a JSON Schema
  kJsonObject,  // any JSON object
  kRegex,       // text: a regular expression that the whole output matches
  kChoice,      // choices: one of them is the output
  kGrammar,     // text: Lark as llguidance defines it, or GBNF, which "::=" tells
  kComposed,    // text: Lark of the server's own, never a client's; "@part_0" in it stands for parts[0], and so on
};

struct GrammarSource {
  GrammarKind kind = GrammarKind::kJsonObject;
  std::string text;
  std::vector<std::string> choices;       // of kChoice
  std::vector<GrammarSource> parts = {};  // of kComposed; none is kComposed
  std::string of = {};                    // of a part: what it is the schema of, as errors name it; may be empty
  friend bool operator==(const GrammarSource&, const GrammarSource&) = default;
};

}  // namespace dunlin::text
