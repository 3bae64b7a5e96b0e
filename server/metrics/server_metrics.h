// SPDX-License-Identifier: Apache-2.0
// The server's metrics: counts what requests and engine steps report, reads the engines' own counters at each scrape.
// What there is to count stands in metric_table.cc. A model has series from AddModel until it leaves the repository.
// Thread rule: any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/model_engine.h"
#include "server/metrics/metric_table.h"
#include "server/models/repository.h"
#include "server/serving/request_record.h"

namespace dunlin::server {

class ModelMetrics;

class ServerMetrics : public RequestObserver, public RepositoryListener {
 public:
  ServerMetrics();
  ~ServerMetrics() override;

  // Starts the series of a model that is about to be loaded; the result goes to its engine. Requests for names that
  // were not added count only in the totals over all models, so that clients cannot create time series.
  std::shared_ptr<engine::StepObserver> AddModel(const std::string& name);
  // Reads the model's engine at each scrape from now on.
  void OnModelAdded(const ModelLease& model) override;
  // Ends the series of the model.
  void OnModelRemoved(const std::string& name) override;

  // Asks the edge at each scrape; until then it is not ready. The function may be called from any thread.
  void WatchEdge(std::function<EdgeSnapshot()> edge);

  void OnTokenInterval(const std::string& model, engine::TimeNs interval) override;
  void OnFinished(const RequestRecord& record) override;

  // The Prometheus text format, version 0.0.4.
  std::string Render() const;

 private:
  struct Model {
    std::shared_ptr<ModelMetrics> metrics;
    ModelLease lease;  // null while the model is loading
  };
  struct Counter;

  // Null for a name that is not served.
  std::shared_ptr<ModelMetrics> Find(const std::string& model) const;

  const double start_time_s_;                             // since 1970
  const std::vector<std::unique_ptr<Counter>> counters_;  // by row of Metrics(); null where the server counts nothing
  mutable absl::Mutex mutex_;  // guards what is read at a scrape: the port answers while models come and go
  std::map<std::string, Model> models_ ABSL_GUARDED_BY(mutex_);
  std::function<EdgeSnapshot()> edge_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
