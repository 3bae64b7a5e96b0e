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

}  // namespace dunlin::text
