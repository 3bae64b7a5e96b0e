#include "server/grpc/call_metadata.h"

#include <grpc/support/time.h>

#include <random>

#include "absl/strings/str_format.h"
#include "server/convert/field_checks.h"
#include "server/convert/finish.h"
#include "server/convert/generate_request.h"

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kNsPerSecond = 1'000'000'000;
constexpr engine::TimeNs kDeadlineSlackNs = 20'000'000;             // a cancel this close to the deadline is one
constexpr int64_t kFarAwaySeconds = int64_t{10} * 365 * 24 * 3600;  // beyond it a deadline is none

std::string DrawRequestId() {
  std::random_device device;
  return absl::StrFormat("%08x%08x%08x%08x", device(), device(), device(), device());
}

}  // namespace

engine::TimeNs DeadlineNs(const grpc::CallbackServerContext& context, engine::TimeNs now) {
  const gpr_timespec deadline = context.raw_deadline();
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return engine::kNoDeadline;
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  if (left.tv_sec > kFarAwaySeconds) return engine::kNoDeadline;
  return now + left.tv_sec * kNsPerSecond + left.tv_nsec;
}

absl::Status CancelledStatus(engine::TimeNs deadline, engine::TimeNs now) {
  const bool too_late = deadline != engine::kNoDeadline && now >= deadline - kDeadlineSlackNs;
  return StatusOf(too_late ? engine::FinishReason::kDeadline : engine::FinishReason::kCancelled);
}

absl::StatusOr<std::string> ChooseRequestId(const grpc::CallbackServerContext& context, std::string_view from_message) {
  std::string id(from_message);
  if (id.empty()) {
    const auto& metadata = context.client_metadata();
    const auto found = metadata.find(kRequestIdKey);
    if (found != metadata.end()) id.assign(found->second.data(), found->second.size());
  }
  if (absl::Status s = CheckPrintable("request_id", id, kMaxRequestIdBytes); !s.ok()) return s;
  return id.empty() ? DrawRequestId() : id;
}

}  // namespace dunlin::server
