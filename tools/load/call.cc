// SPDX-License-Identifier: Apache-2.0
#include "tools/load/call.h"

#include <algorithm>
#include <utility>

namespace dunlin::tools::load {

Call::Call(CallOptions options) : options_(std::move(options)) {
  outcome_.group = options_.group;
  outcome_.intended = options_.intended;
  outcome_.prompt_tokens = options_.prompt_tokens;
}

void Call::OnSent() {
  outcome_.sent = std::max(Now(), outcome_.intended);
  if (options_.recorder != nullptr) options_.recorder->OnSent(outcome_.group, outcome_.intended, outcome_.sent);
}

bool Call::OnTokens(int32_t num_tokens) {
  const TimeNs now = Now();
  const bool first = outcome_.first_token == 0;
  const TimeNs gap = first ? -1 : now - outcome_.last_token;
  if (first) outcome_.first_token = now;
  outcome_.last_token = now;
  outcome_.longest_gap_ns = std::max(outcome_.longest_gap_ns, gap);
  outcome_.output_tokens += num_tokens;
  ++outcome_.token_messages;
  if (options_.recorder != nullptr) options_.recorder->OnTokens(outcome_.group, num_tokens, gap, now);
  if (options_.cancel_after_tokens == 0 || outcome_.output_tokens < options_.cancel_after_tokens) return true;
  GiveUp(Ending::kCancelled);
  return false;
}

void Call::SetUsage(int32_t prompt_tokens, int32_t output_tokens) {
  if (prompt_tokens > 0) outcome_.prompt_tokens = prompt_tokens;
  outcome_.output_tokens = output_tokens;
}

void Call::GiveUp(Ending as) {
  Ending not_yet = Ending::kCompleted;
  given_up_.compare_exchange_strong(not_yet, as);
}

void Call::Complete() {
  outcome_.ending = Ending::kCompleted;
  Finish();
}

void Call::End(Ending ending, const std::string& reason, const std::string& message, bool retry_info) {
  const Ending given_up = given_up_.load();
  outcome_.ending = ending == Ending::kFailed && given_up != Ending::kCompleted ? given_up : ending;
  outcome_.reason = reason;
  outcome_.message = message;
  outcome_.retry_info = retry_info;
  Finish();
}

void Call::Finish() {
  outcome_.ended = Now();
  if (options_.recorder != nullptr) options_.recorder->OnEnd(outcome_);
  options_.on_end();
}

}  // namespace dunlin::tools::load
