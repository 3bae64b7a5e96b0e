// Every metric, declared once: name, help, kind, labels and bucket edges. tests/server/metrics holds the names as a
// golden file. The vllm:* names let existing dashboards and routers read this server; the intervals are vLLM's:
// QUEUED -> first SCHEDULED is queue, SCHEDULED -> first token is prefill, first -> last token is decode.
// Source: vLLM's metrics design document.
#pragma once

#include <span>

namespace dunlin::server {

enum class MetricKind : unsigned char { kCounter, kGauge, kHistogram };

struct MetricRow {
  const char* name;
  const char* help;
  MetricKind kind;
  std::span<const double> buckets;  // kHistogram: upper edges
};

// Per model, label model_name: filled when a request ends (those of generation alone by Generate calls alone), or per
// token interval, or per step.
extern const MetricRow kTimeToFirstToken;
extern const MetricRow kInterTokenLatency;
extern const MetricRow kTimePerOutputToken;
extern const MetricRow kEndToEndLatency;
extern const MetricRow kQueueTime;
extern const MetricRow kInferenceTime;
extern const MetricRow kPrefillTime;
extern const MetricRow kDecodeTime;
extern const MetricRow kPromptTokensPerRequest;
extern const MetricRow kGenerationTokensPerRequest;
extern const MetricRow kRequestParamsN;
extern const MetricRow kRequestParamsMaxTokens;
extern const MetricRow kEmbeddingInputs;
extern const MetricRow kIterationTokens;
extern const MetricRow kStepSeconds;
extern const MetricRow kRequestSuccess;  // also label finished_reason

// Over all models.
extern const MetricRow kRequests;   // labels attention_backend, precision, status
extern const MetricRow kRefusals;   // label reason
extern const MetricRow kBuildInfo;  // label version

}  // namespace dunlin::server
