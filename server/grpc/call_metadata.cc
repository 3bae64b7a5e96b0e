#include "server/grpc/call_metadata.h"

#include <grpc/support/time.h>
#include <unistd.h>

#include <array>

#include "absl/strings/escaping.h"
#include "engine/base/check.h"
#include "server/convert/field_checks.h"
#include "server/convert/finish.h"
#include "server/convert/generate_request.h"

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kNsPerSecond = 1'000'000'000;
constexpr engine::TimeNs kDeadlineSlackNs = 20'000'000;             // a cancel this close to the deadline is one
constexpr int64_t kFarAwaySeconds = int64_t{10} * 365 * 24 * 3600;  // beyond it a deadline is none

// One system call. std::random_device asks the processor what it is each time it is made, which a hypervisor answers.
std::string DrawRequestId() {
  std::array<char, 16> bytes;
  DUNLIN_CHECK(getentropy(bytes.data(), bytes.size()) == 0, "the system has random bytes");
  return absl::BytesToHexString({bytes.data(), bytes.size()});
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
