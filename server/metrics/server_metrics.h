// The server's metrics: counts what the edge and the engines tell it, reads the engines' own counters at each scrape.
// Thread rule: any thread.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/model_engine.h"
#include "server/metrics/server_series.h"
#include "server/request_record.h"

namespace dunlin::server {

class ModelMetrics;

class ServerMetrics : public RequestObserver {
 public:
  // model_names: what is served; requests for other names count only in the dunlin_* totals, so that clients cannot
  // make new time series.
  explicit ServerMetrics(const std::vector<std::string>& model_names);
  ~ServerMetrics() override;

  // The observer to give to a model's engine. REQUIRES: one of model_names. Lives as long as this.
  engine::StepObserver* step_observer(const std::string& model_name);
  // Starts reading an engine at each scrape; it must outlive the last Render.
  void Watch(const std::string& model_name, const engine::ModelEngine* engine);

  // Asks the edge at each scrape; until then it is not ready. The function may be called from any thread.
  void WatchEdge(std::function<EdgeSnapshot()> edge);

  void OnTokenInterval(const std::string& model, engine::TimeNs interval) override;
  void OnFinished(const RequestRecord& record) override;

  // The Prometheus text format, version 0.0.4.
  std::string Render() const;

 private:
  prometheus::Registry registry_;
  std::map<std::string, std::unique_ptr<ModelMetrics>, std::less<>> models_;  // const after construction
  prometheus::Family<prometheus::Counter>* requests_;
  prometheus::Family<prometheus::Counter>* refusals_;
  struct Watched {
    std::string model_name;
    const engine::ModelEngine* engine;
  };
  const double start_time_s_;  // since 1970
  mutable absl::Mutex mutex_;  // guards what is read at a scrape: the port answers while models are still loading
  std::vector<Watched> watched_ ABSL_GUARDED_BY(mutex_);
  std::function<EdgeSnapshot()> edge_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
