#include "server/convert/finish.h"

#include "server/convert/errors.h"

namespace dunlin::server {
namespace {

using engine::FinishReason;

double Milliseconds(engine::TimeNs from, engine::TimeNs to) {
  return from == 0 || to == 0 ? 0.0 : static_cast<double>(to - from) / 1e6;
}

v1::Finish UsageAndTimings(const engine::FinishInfo& info, int32_t completion_tokens) {
  v1::Finish wire;
  wire.mutable_usage()->set_prompt_tokens(info.prompt_tokens);
  wire.mutable_usage()->set_cached_tokens(info.cached_tokens);
  wire.mutable_usage()->set_completion_tokens(completion_tokens);
  wire.mutable_timings()->set_queue_ms(Milliseconds(info.arrival, info.first_scheduled));
  wire.mutable_timings()->set_ttft_ms(Milliseconds(info.arrival, info.first_token));
  wire.mutable_timings()->set_total_ms(Milliseconds(info.arrival, info.finished));
  return wire;
}

}  // namespace

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kSlowReader:
      return "slow_reader";
    case FinishReason::kNumerical:
      return "numerical";
    case FinishReason::kShutdown:
      return "shutdown";
    case FinishReason::kInternal:
      return "internal";
  }
  return "?";
}

absl::Status StatusOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      return absl::OkStatus();
    case FinishReason::kCancelled:
      return MakeError(Reason::kCancelled, "the request was cancelled");
    case FinishReason::kDeadline:
      return MakeError(Reason::kDeadline, "the deadline passed before the output was done");
    case FinishReason::kSlowReader:
      return MakeError(Reason::kSlowReader, "the client reads too slowly (limits.max_unsent_tokens)");
    case FinishReason::kNumerical:
      return MakeError(Reason::kNumerical, "the model produced no finite value");
    case FinishReason::kShutdown:
      return MakeError(Reason::kShutdown, "the server is shutting down");
    case FinishReason::kInternal:
      return MakeError(Reason::kDeviceFailed, "the device failed");
  }
  return MakeError(Reason::kInternal, "unknown end of a sequence");
}

v1::Finish FinishToWire(const engine::FinishInfo& info, int32_t completion_tokens) {
  v1::Finish wire = UsageAndTimings(info, completion_tokens);
  wire.set_reason(info.reason == FinishReason::kStop ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
  if (info.stop_token_id.has_value()) wire.set_stop_token_id(*info.stop_token_id);
  return wire;
}

v1::Finish FinishOfStopString(const engine::FinishInfo& info, int32_t completion_tokens, const std::string& stop) {
  v1::Finish wire = UsageAndTimings(info, completion_tokens);
  wire.set_reason(v1::FINISH_REASON_STOP);
  wire.set_stop(stop);
  return wire;
}

}  // namespace dunlin::server
