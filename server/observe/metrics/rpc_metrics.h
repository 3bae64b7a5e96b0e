// SPDX-License-Identifier: Apache-2.0
// The time series of the gRPC port's calls, by method and status. A status gets its series with its first call, so that
// what clients make of them is bounded by the methods of the server and gRPC's 17 codes.
// Thread rule: any thread.
#pragma once

#include <prometheus/metric_family.h>

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/transport/rpc_observer.h"

namespace dunlin::server {

class RpcMetrics final : public RpcObserver {
 public:
  RpcMetrics();
  ~RpcMetrics() override;

  RpcMethodObserver* ForMethod(const std::string& name) override;

  // Appends the samples of row `row` of Metrics(), which has one of the two sources of RPCs.
  void Collect(size_t row, prometheus::MetricFamily* family) const;

 private:
  class Method;

  mutable absl::Mutex mutex_;  // guards the map; a method has its own
  std::map<std::string, std::unique_ptr<Method>> methods_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
