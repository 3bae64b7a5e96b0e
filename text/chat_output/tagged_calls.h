// SPDX-License-Identifier: Apache-2.0
// Calls that write each argument by itself, between tags: Qwen3-Coder's, GLM's, MiniMax M2's, DeepSeek's DSML and Muse
// Glimmer's. A value becomes JSON by the schema of the function's parameter (ToolSet::ToJson), or by its tag where that
// says what it is; one that can only be a string is passed on as it comes, others when they are complete.
// Source: the models' chat templates.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "text/chat_output/call_reader.h"
#include "text/chat_output/tool_set.h"

namespace dunlin::text {

// The tags of a form. White space before a tag is part of it, but before value_end.
struct CallTags {
  std::string_view call;      // before the function's name; "": the name follows the marker
  std::string_view name_end;  // "": a line break or the next tag ends the name
  std::string_view key;       // before a parameter's name
  std::string_view key_end;
  // One of them follows key_end. Two: the first before a string, the second before JSON. None: the value follows.
  std::span<const std::string_view> value;
  std::string_view value_end;
  std::string_view call_end;
  bool line_breaks;            // one behind a value's first tag and one before its last one are part of them
  bool doubled_names = false;  // F.F stands for the function F where that is known and F.F is not
};

extern const CallTags kQwenTags;     // <function=F> <parameter=K> V </parameter> </function>
extern const CallTags kGlmTags;      // F <arg_key>K</arg_key> <arg_value>V</arg_value> </tool_call>
extern const CallTags kHy3Tags;      // F<tool_sep> <arg_key>K</arg_key> <arg_value>V</arg_value> </tool_call>
extern const CallTags kMinimaxTags;  // <invoke name="F"> <parameter name="K">V</parameter> </invoke>
// <｜DSML｜invoke name="F"> <｜DSML｜parameter name="K" string="true">V</｜DSML｜parameter> </｜DSML｜invoke>
extern const CallTags kDsmlTags;

extern const CallTags kAtemTags;  // <atem:invoke name="F"> <atem:parameter name="K">V</atem:parameter> </atem:invoke>

// in_call: the marker was tags.call, which then is not expected. tags and tools outlive the reader.
std::unique_ptr<CallReader> MakeTaggedCall(const CallTags& tags, bool in_call, const ToolSet* tools);

// Of a function's or a parameter's name in a tag; a call with a longer one is not read.
inline constexpr size_t kMaxTagNameBytes = 256;
// Whether a reader takes `name` as one of a parameter: kQwenTags and kGlmTags; those that write it in quotes.
bool IsTagName(std::string_view name);
bool IsQuotedTagName(std::string_view name);

}  // namespace dunlin::text
