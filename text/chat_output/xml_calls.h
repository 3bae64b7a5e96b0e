// SPDX-License-Identifier: Apache-2.0
// Qwen3-Coder's calls: <function=NAME>, for each argument <parameter=KEY>, a line break, the value, a line break and
// </parameter>, then </function>. A value becomes JSON by the schema of the function's parameter (ToolSet::ToJson);
// one that can only be a string is passed on as it comes, others when they are complete.
#pragma once

#include <memory>
#include <string_view>

#include "text/chat_output/call_reader.h"
#include "text/chat_output/tool_set.h"

namespace dunlin::text {

// in_function: the marker was <function=, else <tool_call>. tools outlives the reader.
std::unique_ptr<CallReader> MakeXmlCall(bool in_function, const ToolSet* tools);

// Whether the reader takes `name` as one of a parameter.
bool IsXmlName(std::string_view name);

}  // namespace dunlin::text
