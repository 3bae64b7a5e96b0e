// SPDX-License-Identifier: Apache-2.0
// The server's metrics: aggregates what requests and engine steps report, and reads the engines' counters at each
// scrape. The metrics are declared in metric_table.cc. A model has series from AddModel until it leaves the repository.
// Thread rule: any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/request/model_engine.h"
#include "server/models/repository.h"
#include "server/observe/metrics/metric_table.h"
#include "server/observe/metrics/rpc_metrics.h"
#include "server/serving/record/request_record.h"

namespace dunlin::server {

class ModelMetrics;

class ServerMetrics : public RequestObserver, public RepositoryListener {
 public:
  ServerMetrics();
  ~ServerMetrics() override;

  // Starts the series of a model that is about to be loaded, or goes on with those that its name has; pass the result
  // to its engine. Requests for names that were not added count only in the totals over all models, so that clients
  // cannot create time series.
  std::shared_ptr<engine::StepObserver> AddModel(const std::string& name);
  // From now on, the model's engine is read at each scrape.
  void OnModelAdded(const ModelLease& model) override;
  // Ends the series of the model, which may also have failed to load.
  void OnModelRemoved(const std::string& name) override;
  // Its series go on; the counters of its engine begin again.
  void OnModelReplaced(const ModelLease& model) override { OnModelAdded(model); }

  // From now on, `edge` is called at each scrape, from any thread; before that, the server is reported as not ready.
  void WatchEdge(std::function<EdgeSnapshot()> edge);

  // From now on, `models` is called at each scrape, from any thread; before that, no model has a state.
  void WatchModels(std::function<std::vector<ModelStatus>()> models);

  // From now on, `tracing` is called at each scrape, from any thread; before that, no span has been exported.
  void WatchTracing(std::function<TracingSnapshot()> tracing);

  // Where the gRPC port reports its RPCs.
  RpcObserver* rpcs() { return &rpcs_; }

  void OnTokenInterval(const std::string& model, const engine::ExecutionProfile& profile,
                       engine::TimeNs interval) override;
  void OnFinished(const RequestRecord& record) override;
  void OnIgnored(std::string_view route, const IgnoredNames& names) override;

  // route: HttpResponse::route, one of a fixed set.
  void OnHttpResponse(std::string_view route, int status);

  // The Prometheus text format, version 0.0.4.
  std::string Render() const;

 private:
  struct Model {
    std::shared_ptr<ModelMetrics> metrics;
    ModelLease lease;  // null while the model is loading
  };
  struct Counter;

  // Null for a model that was not added.
  std::shared_ptr<ModelMetrics> Find(const std::string& model) const;

  const double start_time_s_;                             // since 1970
  const std::vector<std::unique_ptr<Counter>> counters_;  // by row of Metrics(); null for rows that count no events
  RpcMetrics rpcs_;
  mutable absl::Mutex mutex_;  // guards what a scrape reads, because the port is open while models come and go
  std::map<std::string, Model> models_ ABSL_GUARDED_BY(mutex_);
  std::function<EdgeSnapshot()> edge_ ABSL_GUARDED_BY(mutex_);
  std::function<TracingSnapshot()> tracing_ ABSL_GUARDED_BY(mutex_);
  std::function<std::vector<ModelStatus>()> statuses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
