// SPDX-License-Identifier: Apache-2.0
// MiniMax M3's calls: every tag stands behind the model's mark, and an argument's tag is its name. Objects are their
// members' tags, lists one <item> for each item, other values their text; which of them a value is, and what its text
// is, follows from the schema of the function.
// Source: the model's chat template (its macro to_xml).
#pragma once

#include <memory>
#include <string_view>

#include "text/chat_output/call_reader.h"
#include "text/chat_output/tool_set.h"

namespace dunlin::text {

inline constexpr std::string_view kMinimaxMark = "]<]minimax[>[";
inline constexpr std::string_view kMinimaxBlock = "]<]minimax[>[<tool_call>";
inline constexpr std::string_view kMinimaxBlockEnd = "]<]minimax[>[</tool_call>";
inline constexpr std::string_view kMinimaxInvoke = "]<]minimax[>[<invoke name=\"";
inline constexpr std::string_view kMinimaxInvokeEnd = "]<]minimax[>[</invoke>";
inline constexpr std::string_view kMinimaxElement = "]<]minimax[>[<";

// in_call: the marker was kMinimaxInvoke, which then is not expected. tools outlives the reader.
std::unique_ptr<CallReader> MakeMinimaxM3Call(bool in_call, const ToolSet* tools);

// Whether the reader takes `name` as one of a parameter or a member.
bool IsMinimaxName(std::string_view name);

}  // namespace dunlin::text
