// SPDX-License-Identifier: Apache-2.0
// A request's use of a model that is loaded with it (models[].idle_unload_s), and of an adapter that comes back to the
// device's memory with it (models[].max_registered_adapters): its wait until they are in memory, while nothing waits
// but the request, and its hold until the request has ended, so that they stay. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/request/adapter_lease.h"
#include "engine/request/types.h"
#include "server/access/principal.h"
#include "server/serving/core/serving_core.h"

namespace dunlin::server {

class ModelUse {
 public:
  // core outlives this object. deadline: the request's. resume: called on another thread when the wait has ended; must
  // not block; may be called for a short time after this object is gone.
  ModelUse(const ServingCore& core, engine::TimeNs deadline, std::function<void()> resume)
      : core_(core), deadline_(deadline), resume_(std::move(resume)) {}
  // Ends the wait, or the hold.
  ~ModelUse();
  ModelUse(const ModelUse&) = delete;
  ModelUse& operator=(const ModelUse&) = delete;

  // Whether the caller's request can go on. False: the model, or the adapter, is being loaded; call again once resume
  // was called. True also for a model that no request loads: whether it is served is seen by who leases it. Errors:
  // RESOURCE_EXHAUSTED (too many requests wait for it), UNAVAILABLE (it could not be loaded, or not within
  // models[].load_wait_ms).
  absl::StatusOr<bool> Ready(const Principal& caller, const std::string& model);

 private:
  struct Wait;

  absl::StatusOr<bool> Begin(const Principal& caller, const std::string& model);
  absl::StatusOr<bool> BeginAdapter(const Principal& caller);
  absl::Time Deadline() const;
  absl::Status Refused(const Principal& caller, const absl::Status& why) const;

  const ServingCore& core_;
  const engine::TimeNs deadline_;
  const std::function<void()> resume_;
  std::string name_;            // of the model that is waited for, or held
  std::string named_;           // what the request calls it
  std::string adapter_;         // of the model, if the request names one
  engine::AdapterLease lease_;  // of the adapter, held
  uint64_t id_ = 0;             // of the use; 0: there is none
  uint64_t adapter_id_ = 0;     // of the wait for the adapter; 0: there was none
  std::shared_ptr<Wait> wait_;  // null: nothing is waited for
};

}  // namespace dunlin::server
