// SPDX-License-Identifier: Apache-2.0
// What ModelStatistics reports: counts and times of every generation and embedding of a model, whatever protocol it
// came by, since the server started. Thread rule: any thread; one short lock per call that ends.
#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "kserve/grpc_service.pb.h"
#include "server/models/repository.h"
#include "server/serving/record/request_record.h"

namespace dunlin::server::kserve {

class ModelStatistics final : public RequestObserver {
 public:
  // Calls of models that it does not serve are not counted: their names are the clients'. models outlives this object.
  explicit ModelStatistics(const ModelRepository& models) : models_(models) {}

  void OnTokenInterval(const std::string& /*model*/, const engine::ExecutionProfile& /*profile*/,
                       engine::TimeNs /*interval*/) override {}
  void OnFinished(const RequestRecord& record) override;

  // All zero for a model without calls. execution_count is the steps of the model's engine.
  void Fill(const ServedModel& model, inference::ModelStatistics* out) const;

 private:
  const ModelRepository& models_;
  mutable absl::Mutex mutex_;  // guards counts_, between calls that end and those that read
  absl::flat_hash_map<std::string, inference::ModelStatistics> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server::kserve
