// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/call_metadata.h"

#include <grpc/support/time.h>

#include <string_view>
#include <vector>

#include "server/serving/resolve/check_request.h"

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kNsPerSecond = 1'000'000'000;
constexpr int64_t kNoDeadlineSeconds = int64_t{10} * 365 * 24 * 3600;  // a later deadline counts as none

std::vector<std::string_view> ValuesOf(const grpc::CallbackServerContext& context, const char* key) {
  std::vector<std::string_view> values;
  const auto [begin, end] = context.client_metadata().equal_range(key);
  for (auto entry = begin; entry != end; ++entry) values.emplace_back(entry->second.data(), entry->second.size());
  return values;
}

}  // namespace

engine::TimeNs DeadlineNs(const grpc::CallbackServerContext& context, engine::TimeNs now) {
  const gpr_timespec deadline = context.raw_deadline();
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return engine::kNoDeadline;
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  if (left.tv_sec > kNoDeadlineSeconds) return engine::kNoDeadline;
  return now + left.tv_sec * kNsPerSecond + left.tv_nsec;
}

std::string RequestIdOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(kRequestIdKey);
  return found == metadata.end() ? std::string() : std::string(found->second.data(), found->second.size());
}

void EchoRequestId(const grpc::Status& end, grpc::CallbackServerContext* context) {
  const std::string id = RequestIdOf(*context);
  if (id.empty() || CheckRequestId(id).has_value()) return;
  if (end.ok()) {
    context->AddInitialMetadata(kRequestIdKey, id);
  } else {
    context->AddTrailingMetadata(kRequestIdKey, id);
  }
}

std::optional<TraceContext> TraceOf(const ServingCore& core, const grpc::CallbackServerContext& context) {
  if (!core.traces()) return std::nullopt;
  return ReadTraceContext(ValuesOf(context, kTraceParentHeader), ValuesOf(context, kTraceStateHeader));
}

}  // namespace dunlin::server
