// SPDX-License-Identifier: Apache-2.0
// The time series of one model, updated as steps and requests end. Thread rule: any thread.
#pragma once

#include <prometheus/metric_family.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/request/model_engine.h"
#include "server/observe/metrics/metric_table.h"
#include "server/serving/record/request_record.h"

namespace dunlin::server {

class ModelMetrics : public engine::StepObserver {
 public:
  explicit ModelMetrics(const std::string& model_name);
  ~ModelMetrics() override;

  void OnStep(int32_t num_tokens, int32_t num_sequences, engine::TimeNs duration) override;
  void OnTokenInterval(const engine::ExecutionProfile& profile, engine::TimeNs interval);
  // A call that ended OK.
  void OnServed(const RequestRecord& record);

  // Appends this model's samples of row `row` of Metrics(). `stats` is null while the model is loading.
  void Collect(size_t row, const engine::EngineStats* stats, prometheus::MetricFamily* family) const;

 private:
  struct Series;

  const std::string model_name_;
  std::vector<std::unique_ptr<Series>> series_;  // by row of Metrics(); null for rows without observations
};

}  // namespace dunlin::server
