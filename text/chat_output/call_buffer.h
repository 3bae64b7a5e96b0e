// SPDX-License-Identifier: Apache-2.0
// The call that is being read: what of it goes to the sink, when, and what the model wrote of it, in case that it is
// not a call in the end.
// Owner: a parser. Thread rule: one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "text/chat_output/call_reader.h"
#include "text/chat_output/chat_output_sink.h"
#include "text/chat_output/tool_set.h"

namespace dunlin::text {

// Of what the model writes of one call. A longer call is text, so that what is kept of an output stays bounded.
inline constexpr size_t kMaxCallBytes = size_t{256} << 10;
inline constexpr size_t kMaxCallNameBytes = 256;

class CallBuffer final : public CallWriter {
 public:
  // max_bytes: of one call, at most kMaxCallBytes. The pointers outlive this.
  CallBuffer(const ToolSet* tools, size_t max_bytes, ChatOutputSink* sink)
      : tools_(tools), max_bytes_(std::min(max_bytes, kMaxCallBytes)), sink_(sink) {}

  // Of the calls that follow: whether only names of `tools` are names. So where no marker tells a call from an answer.
  void set_known_names_only(bool known) { known_names_only_ = known; }

  // What the model wrote. A reader gets a byte after it was added.
  void AddRaw(std::string_view raw) { raw_.append(raw); }
  void DropLastRaw() { raw_.pop_back(); }
  bool full() const { return raw_.size() > max_bytes_; }

  void Id(std::string_view id) override { id_ = id; }
  bool Name(std::string_view name) override;
  void Arguments(std::string_view json) override { arguments_.append(json); }
  void End() override;

  // Sends the arguments that are there, but for a '}' that may be the last.
  void Flush();
  // What was added since the last call's end is markup.
  void EndMarkup();
  // What was added since the last call's end is text.
  void Break();

  int num_calls() const { return num_calls_; }

 private:
  const ToolSet* const tools_;
  const size_t max_bytes_;
  ChatOutputSink* const sink_;
  bool known_names_only_ = false;
  bool named_ = false;
  bool has_arguments_ = false;
  std::string id_;         // of the call whose name follows
  std::string raw_;        // since the last call's end
  std::string arguments_;  // not yet sent
  int num_calls_ = 0;
};

}  // namespace dunlin::text
