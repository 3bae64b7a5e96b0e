// SPDX-License-Identifier: Apache-2.0
// The forms in which models write tool calls, as one table. A model's form is named by its configuration, or recognised
// by its chat template.
// Constant data; any thread.
// Source: the models' chat templates and cards; docs/chat.md has an example of each.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "text/chat_output/call_grammar.h"
#include "text/chat_output/call_reader.h"
#include "text/chat_output/output_frame.h"
#include "text/chat_output/tool_set.h"

namespace dunlin::text {

struct ToolFormat {
  const char* name;
  // What calls begin with. None is the beginning of another.
  std::span<const std::string_view> openers;
  // What may follow a call directly, and is dropped there.
  std::span<const std::string_view> closers;
  // The first byte of calls that begin an output without an opener; only calls of known functions do. '\0': none do.
  char bare;
  // All texts that the readers need and that may be special tokens of the model.
  std::span<const std::string_view> tokens;
  // Ids of calls are nine letters and digits, as the model's template demands, instead of "call_" and 24.
  bool short_ids;
  bool (*recognises)(std::string_view chat_template);
  // opener: its index; openers.size(): none (see `bare`). Null: harmony_parser.h reads them itself.
  std::unique_ptr<CallReader> (*make_reader)(size_t opener, const ToolSet* tools);
  // The rule "calls" (call_grammar.h), of one call or more.
  std::string (*grammar)(const CallGrammar& request, GrammarParts* parts);
  // Not kNone: harmony_parser.h reads the whole output, and only outputs of this frame have the calls.
  OutputFrame frame = OutputFrame::kNone;
};

// In the order in which they are tried: a form whose markers another one's templates contain too comes later.
std::span<const ToolFormat> ToolFormats();

const ToolFormat* FindToolFormat(std::string_view name);                // null: there is none
const ToolFormat* RecogniseToolFormat(std::string_view chat_template);  // null: none is recognised

}  // namespace dunlin::text
