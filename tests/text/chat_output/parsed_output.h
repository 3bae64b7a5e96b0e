// SPDX-License-Identifier: Apache-2.0
// Runs a parser over an output in given pieces and records what comes out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat_output/chat_output_parser.h"

namespace dunlin::text {

struct ParsedCall {
  std::string name;
  std::string arguments;
  bool complete = false;
  std::string id = {};  // that the model gave it
  friend bool operator==(const ParsedCall&, const ParsedCall&) = default;
};

struct ParsedOutput {
  std::string text;
  std::string reasoning;
  std::vector<ParsedCall> calls;  // those that broke included
  std::string raw;                // everything, as the model wrote it
  std::vector<ParsedCall> complete_calls() const;
  friend bool operator==(const ParsedOutput&, const ParsedOutput&) = default;
};

// "" and "none": null.
ChatOutputForms FormsNamed(const std::string& reasoning, const std::string& calls);

struct ParseOptions {
  ChatOutputForms forms = {};
  const ToolSet* tools = nullptr;
  bool parallel = true;
  std::string prompt = {};
};

ParsedOutput ParsePieces(const ParseOptions& options, const std::vector<std::string_view>& pieces);
ParsedOutput Parse(const ParseOptions& options, std::string_view output);
ParsedOutput ParseBytewise(const ParseOptions& options, std::string_view output);

// get_weather(city: string, days: integer, tags: array, exact: boolean, at: object), ping() and find.birds(q: string or
// null, limit: number).
const ToolSet& TestTools();

}  // namespace dunlin::text
