// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/call_buffer.h"

#include <utility>

namespace dunlin::text {

bool CallBuffer::Name(std::string_view name) {
  const std::string id = std::exchange(id_, {});
  if (name.empty() || name.size() > kMaxCallNameBytes) return false;
  if (known_names_only_ && tools_->Find(name) == nullptr) return false;
  named_ = true;
  sink_->OnCall(name, id);
  return true;
}

void CallBuffer::End() {
  if (arguments_.empty() && !has_arguments_) arguments_ = "{}";
  if (!arguments_.empty()) sink_->OnArguments(arguments_);
  sink_->OnCallEnd(raw_);
  raw_.clear();
  arguments_.clear();
  named_ = false;
  has_arguments_ = false;
  ++num_calls_;
}

void CallBuffer::Flush() {
  if (!named_ || arguments_.empty()) return;
  has_arguments_ = true;
  const bool hold = arguments_.back() == '}';
  if (hold) arguments_.pop_back();
  if (!arguments_.empty()) sink_->OnArguments(arguments_);
  arguments_ = hold ? "}" : "";
}

void CallBuffer::EndMarkup() {
  if (!raw_.empty()) sink_->OnMarkup(raw_);
  raw_.clear();
}

void CallBuffer::Break() {
  Flush();  // as if each byte had come alone
  if (named_) sink_->OnCallBroken();
  if (!raw_.empty()) sink_->OnText(raw_);
  raw_.clear();
  arguments_.clear();
  named_ = false;
  has_arguments_ = false;
}

}  // namespace dunlin::text
