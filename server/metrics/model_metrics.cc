#include "server/metrics/model_metrics.h"

#include "server/metrics/metric_table.h"

namespace dunlin::server {
namespace {

double Seconds(engine::TimeNs duration) {
  return static_cast<double>(duration) * 1e-9;
}

prometheus::Histogram* AddHistogram(const MetricRow& row, const std::string& model_name,
                                    prometheus::Registry* registry) {
  auto& family = prometheus::BuildHistogram().Name(row.name).Help(row.help).Register(*registry);
  return &family.Add({{"model_name", model_name}},
                     prometheus::Histogram::BucketBoundaries(row.buckets.begin(), row.buckets.end()));
}

}  // namespace

ModelMetrics::ModelMetrics(const std::string& model_name, prometheus::Registry* registry)
    : model_name_(model_name),
      success_(&prometheus::BuildCounter().Name(kRequestSuccess.name).Help(kRequestSuccess.help).Register(*registry)),
      first_token_(AddHistogram(kTimeToFirstToken, model_name, registry)),
      token_interval_(AddHistogram(kInterTokenLatency, model_name, registry)),
      per_output_token_(AddHistogram(kTimePerOutputToken, model_name, registry)),
      end_to_end_(AddHistogram(kEndToEndLatency, model_name, registry)),
      queue_(AddHistogram(kQueueTime, model_name, registry)),
      inference_(AddHistogram(kInferenceTime, model_name, registry)),
      prefill_(AddHistogram(kPrefillTime, model_name, registry)),
      decode_(AddHistogram(kDecodeTime, model_name, registry)),
      prompt_tokens_(AddHistogram(kPromptTokensPerRequest, model_name, registry)),
      generation_tokens_(AddHistogram(kGenerationTokensPerRequest, model_name, registry)),
      params_n_(AddHistogram(kRequestParamsN, model_name, registry)),
      params_max_tokens_(AddHistogram(kRequestParamsMaxTokens, model_name, registry)),
      embedding_inputs_(AddHistogram(kEmbeddingInputs, model_name, registry)),
      iteration_tokens_(AddHistogram(kIterationTokens, model_name, registry)),
      step_seconds_(AddHistogram(kStepSeconds, model_name, registry)) {}

void ModelMetrics::OnStep(int32_t num_tokens, int32_t /*num_sequences*/, engine::TimeNs duration) {
  iteration_tokens_->Observe(num_tokens);
  step_seconds_->Observe(Seconds(duration));
}

void ModelMetrics::OnTokenInterval(engine::TimeNs interval) {
  token_interval_->Observe(Seconds(interval));
}

void ModelMetrics::OnServed(const RequestRecord& record) {
  success_->Add({{"model_name", model_name_}, {"finished_reason", record.finish_reason}}).Increment();
  end_to_end_->Observe(Seconds(record.finished - record.arrival));
  queue_->Observe(Seconds(record.first_scheduled - record.arrival));
  inference_->Observe(Seconds(record.finished - record.first_scheduled));
  prompt_tokens_->Observe(record.prompt_tokens);
  if (record.num_inputs > 0) {
    embedding_inputs_->Observe(record.num_inputs);
    return;
  }
  if (record.first_token != 0) {
    first_token_->Observe(Seconds(record.first_token - record.arrival));
    prefill_->Observe(Seconds(record.first_token - record.first_scheduled));
    decode_->Observe(Seconds(record.finished - record.first_token));
  }
  const int32_t tokens_per_output = record.completion_tokens / record.num_outputs;
  if (tokens_per_output > 1) {
    per_output_token_->Observe(Seconds(record.finished - record.first_token) / (tokens_per_output - 1));
  }
  generation_tokens_->Observe(record.completion_tokens);
  params_n_->Observe(record.num_outputs);
  params_max_tokens_->Observe(record.max_tokens);
}

}  // namespace dunlin::server
