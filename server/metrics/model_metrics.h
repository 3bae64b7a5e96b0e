// The series of one model that are counted as things happen.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>

#include "engine/model_engine.h"
#include "server/request_record.h"

namespace dunlin::server {

class ModelMetrics : public engine::StepObserver {
 public:
  ModelMetrics(const std::string& model_name, prometheus::Registry* registry);

  void OnStep(int32_t num_tokens, int32_t num_sequences, engine::TimeNs duration) override;
  void OnTokenInterval(engine::TimeNs interval);
  // Fills the request histograms of a call that ended OK.
  void OnServed(const RequestRecord& record);

 private:
  const std::string model_name_;
  prometheus::Family<prometheus::Counter>* const success_;
  prometheus::Histogram* const first_token_;
  prometheus::Histogram* const token_interval_;
  prometheus::Histogram* const per_output_token_;
  prometheus::Histogram* const end_to_end_;
  prometheus::Histogram* const queue_;
  prometheus::Histogram* const inference_;
  prometheus::Histogram* const prefill_;
  prometheus::Histogram* const decode_;
  prometheus::Histogram* const prompt_tokens_;
  prometheus::Histogram* const generation_tokens_;
  prometheus::Histogram* const params_n_;
  prometheus::Histogram* const params_max_tokens_;
  prometheus::Histogram* const embedding_inputs_;
  prometheus::Histogram* const iteration_tokens_;
  prometheus::Histogram* const step_seconds_;
};

}  // namespace dunlin::server
