// SPDX-License-Identifier: Apache-2.0
// Calls whose name stands before their arguments, a JSON object.
#pragma once

#include <memory>

#include "text/chat_output/call_reader.h"

namespace dunlin::text {

// After [TOOL_CALLS]: NAME[ARGS]OBJECT, with [CALL_ID] and an id before [ARGS] or neither; or a list as in
// json_calls.h.
std::unique_ptr<CallReader> MakeMistralCalls();

// After <｜tool▁call▁begin｜>: NAME<｜tool▁sep｜>OBJECT (V3.1), or function<｜tool▁sep｜>NAME, a line break and OBJECT
// in a fenced block (V3, R1). in_list: the marker was <｜tool▁calls▁begin｜>, which comes before the first call.
std::unique_ptr<CallReader> MakeDeepseekCall(bool in_list);

// After <|tool_call_begin|>: ID<|tool_call_argument_begin|>OBJECT, where ID is functions.NAME:NUMBER and stays the
// call's id. in_list: the marker was <|tool_calls_section_begin|>, which comes before the first call.
std::unique_ptr<CallReader> MakeKimiCall(bool in_list);

}  // namespace dunlin::text
