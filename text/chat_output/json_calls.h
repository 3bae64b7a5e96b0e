// SPDX-License-Identifier: Apache-2.0
// Calls written as JSON objects: {"name": NAME, "arguments": OBJECT}, alone or in a list. "tool_name" and "parameters"
// are other words for these; other members are read and left out; the members may stand in any order, each once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "text/chat_output/call_reader.h"
#include "text/chat_output/json_scanner.h"

namespace dunlin::text {

// One such object. Take begins with its '{'.
class CallObject {
 public:
  Scan Take(char c, CallWriter* calls);

 private:
  enum class State : uint8_t { kOpen, kFirstKey, kKey, kInKey, kColon, kValue, kNext };
  enum class Member : uint8_t { kName, kArguments, kOther };
  Scan BeginValue(char c, CallWriter* calls);
  Scan TakeValue(char c, CallWriter* calls);
  Scan TakeNext(char c, CallWriter* calls);
  bool EndKey();
  Scan Go(State state) {
    state_ = state;
    return Scan::kMore;
  }

  State state_ = State::kOpen;
  Member member_ = Member::kOther;
  bool has_name_ = false;
  bool has_arguments_ = false;
  std::string text_;  // of the key, or of the name: a JSON string
  std::optional<JsonScanner> value_;
};

// An object or a list of objects. semicolons: further objects may follow one that stands alone, each behind a ';'.
std::unique_ptr<CallReader> MakeJsonCalls(bool semicolons);

}  // namespace dunlin::text
