// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/model_statistics.h"

#include <algorithm>
#include <cstdint>

#include "absl/time/clock.h"
#include "server/fronts/kserve/infer_request.h"

namespace dunlin::server::kserve {
namespace {

// from: 0 if it never came to that; nothing is counted then.
void AddTime(engine::TimeNs from, engine::TimeNs to, inference::StatisticDuration* duration) {
  if (from == 0) return;
  duration->set_count(duration->count() + 1);
  duration->set_ns(duration->ns() + static_cast<uint64_t>(std::max<engine::TimeNs>(to - from, 0)));
}

}  // namespace

void ModelStatistics::OnFinished(const RequestRecord& record) {
  if (models_.Lease(record.model) == nullptr) return;
  absl::MutexLock lock(&mutex_);
  inference::ModelStatistics& model = counts_[record.model];
  inference::InferStatistics* times = model.mutable_inference_stats();
  if (!record.status.ok()) return AddTime(record.arrival, record.finished, times->mutable_fail());
  if (record.first_scheduled == 0) return;  // it has loaded its model alone
  model.set_inference_count(model.inference_count() +
                            static_cast<uint64_t>(std::max(record.num_inputs, record.num_outputs)));
  model.set_last_inference(static_cast<uint64_t>(absl::ToUnixMillis(absl::Now())));
  AddTime(record.arrival, record.finished, times->mutable_success());
  AddTime(record.arrival, record.first_scheduled, times->mutable_queue());
  AddTime(record.first_scheduled, record.finished, times->mutable_compute_infer());
}

void ModelStatistics::Fill(const ServedModel& model, inference::ModelStatistics* out) const {
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = counts_.find(model.name); found != counts_.end()) *out = found->second;
  }
  out->set_name(model.name);
  out->set_version(kModelVersion);
  out->set_execution_count(model.any_engine()->stats().steps);
}

}  // namespace dunlin::server::kserve
