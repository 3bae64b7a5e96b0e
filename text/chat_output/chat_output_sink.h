// SPDX-License-Identifier: Apache-2.0
// What the parsers of a chat's output produce, in the order in which the model wrote it. The texts of OnText,
// OnReasoning, OnMarkup and the raw texts of OnCallEnd, one after another, are the model's output, byte for byte.
// Plain interface. Thread rule: one thread at a time.
#pragma once

#include <string_view>

namespace dunlin::text {

class ChatOutputSink {
 public:
  virtual ~ChatOutputSink() = default;
  // The answer; and a call that is malformed or unfinished, as the model wrote it.
  virtual void OnText(std::string_view text) = 0;
  virtual void OnReasoning(std::string_view text) = 0;
  // A call begins. id: what the model gave it; "": nothing.
  virtual void OnCall(std::string_view name, std::string_view id) = 0;
  // Of the last call, JSON. The '}' that completes it comes with the call's end: what was sent of a call that does not
  // end is never a JSON object.
  virtual void OnArguments(std::string_view json) = 0;
  // The last call is complete. raw: what the model wrote of it, with the markers around it.
  virtual void OnCallEnd(std::string_view raw) = 0;
  // The last call is not one. What the model wrote of it follows as text.
  virtual void OnCallBroken() = 0;
  // Markers and the white space around them, which no client sees.
  virtual void OnMarkup(std::string_view raw) = 0;
};

}  // namespace dunlin::text
