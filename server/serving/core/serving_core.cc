// SPDX-License-Identifier: Apache-2.0
#include "server/serving/core/serving_core.h"

#include "server/models/model_lifecycle.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kNsPerMs = 1'000'000;

}  // namespace

ServingCore::ServingCore(const Limits& limits, const ModelRepository& models, RequestObserver* observer,
                         const ServingOptions& options)
    : limits_(limits),
      models_(models),
      observer_(observer),
      clock_(options.clock),
      access_(options.access),
      endpoints_(options.endpoints),
      traces_(options.traces),
      profile_aliases_(options.profile_aliases),
      lifecycle_(options.lifecycle),
      admission_({limits.max_concurrent_requests, limits.max_queued_bytes, limits.max_output_bytes}),
      text_budget_(limits.max_tokenising_bytes),
      value_budget_(limits.max_value_bytes),
      stall_watch_(limits.slow_reader_timeout_ms * kNsPerMs),
      text_pool_(options.text_threads, [this] { stall_watch_.Sweep(clock_()); }) {
  for (size_t i = 0; i < kNumAdmissionRefusals; ++i) {
    RequestRecord& record = refused_records_[i];
    record.status = AdmissionRefused(static_cast<AdmissionRefusal>(i), limits);
    record.refusal_reason = ReasonName(record.status);
  }
}

bool ServingCore::loads_for_requests() const {
  return lifecycle_ != nullptr && lifecycle_->loads_for_requests();
}

std::variant<Admission::Ticket, AdmissionRefusal> ServingCore::TryAdmit(engine::TenantId payer, size_t message_bytes) {
  std::variant<Admission::Ticket, AdmissionRefusal> answer = admission_.TryAdmit(payer, message_bytes);
  if (const auto* refusal = std::get_if<AdmissionRefusal>(&answer)) CountRefusal(*refusal);
  return answer;
}

std::variant<Admission::Ticket, AdmissionRefusal> ServingCore::TryReceive(engine::TenantId payer,
                                                                          size_t announced_bytes) {
  std::variant<Admission::Ticket, AdmissionRefusal> answer = admission_.TryReceive(payer, announced_bytes);
  if (const auto* refusal = std::get_if<AdmissionRefusal>(&answer)) CountRefusal(*refusal);
  return answer;
}

void ServingCore::CountRefusal(AdmissionRefusal refusal) {
  if (absl::IsResourceExhausted(StatusOf(refusal))) overload_.OnRefusal(now());
}

const absl::Status& ServingCore::StatusOf(AdmissionRefusal refusal) const {
  return refused_records_[static_cast<size_t>(refusal)].status;
}

void ServingCore::ReportRefused(AdmissionRefusal refusal, engine::TimeNs arrival) const {
  if (observer_ == nullptr) return;
  RequestRecord record = refused_records_[static_cast<size_t>(refusal)];
  record.arrival = record.finished = arrival;
  observer_->OnFinished(record);
}

void ServingCore::ReportRefused(const absl::Status& status, engine::TimeNs arrival) const {
  if (observer_ == nullptr) return;
  RequestRecord record;
  record.status = status;
  record.refusal_reason = ReasonName(status);
  record.arrival = record.finished = arrival;
  observer_->OnFinished(record);
}

}  // namespace dunlin::server
