#include "server/metrics/metric_table.h"

namespace dunlin::server {
namespace {

constexpr double kLongSeconds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                   30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
constexpr double kFirstTokenSeconds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                         1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
// vLLM's edges start at 10 ms, where a small model's every interval would fall into one bucket: finer ones below.
constexpr double kTokenSeconds[] = {0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.025,
                                    0.05,  0.075, 0.1,   0.15,  0.2,   0.3,   0.4,   0.5,  0.75,
                                    1,     2.5,   5,     7.5,   10,    20,    40,    80};
constexpr double kTokenCounts[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                   1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
constexpr double kInputs[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
constexpr double kOutputs[] = {1, 2, 5, 10, 20};
constexpr double kStepTokens[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
constexpr auto kHistogram = MetricKind::kHistogram;
constexpr auto kCounter = MetricKind::kCounter;

}  // namespace

const MetricRow kTimeToFirstToken{"vllm:time_to_first_token_seconds", "Arrival to first token", kHistogram,
                                  kFirstTokenSeconds};
const MetricRow kInterTokenLatency{"vllm:inter_token_latency_seconds", "Between two tokens of one output", kHistogram,
                                   kTokenSeconds};
const MetricRow kTimePerOutputToken{"vllm:request_time_per_output_token_seconds",
                                    "Decode time of a request over its tokens after the first", kHistogram,
                                    kTokenSeconds};
const MetricRow kEndToEndLatency{"vllm:e2e_request_latency_seconds", "Arrival to finish", kHistogram, kLongSeconds};
const MetricRow kQueueTime{"vllm:request_queue_time_seconds", "Arrival to first scheduled", kHistogram, kLongSeconds};
const MetricRow kInferenceTime{"vllm:request_inference_time_seconds", "First scheduled to finish", kHistogram,
                               kLongSeconds};
const MetricRow kPrefillTime{"vllm:request_prefill_time_seconds", "First scheduled to first token", kHistogram,
                             kLongSeconds};
const MetricRow kDecodeTime{"vllm:request_decode_time_seconds", "First token to finish", kHistogram, kLongSeconds};
const MetricRow kPromptTokensPerRequest{"vllm:request_prompt_tokens", "Prompt tokens of a request", kHistogram,
                                        kTokenCounts};
const MetricRow kGenerationTokensPerRequest{"vllm:request_generation_tokens", "Generated tokens of a request",
                                            kHistogram, kTokenCounts};
const MetricRow kRequestParamsN{"vllm:request_params_n", "Outputs asked for (n)", kHistogram, kOutputs};
const MetricRow kRequestParamsMaxTokens{"vllm:request_params_max_tokens", "max_tokens of a request", kHistogram,
                                        kTokenCounts};
const MetricRow kEmbeddingInputs{"dunlin_embedding_inputs", "Inputs of an Embed call", kHistogram, kInputs};
const MetricRow kIterationTokens{"vllm:iteration_tokens_total", "Tokens computed by one engine step", kHistogram,
                                 kStepTokens};
const MetricRow kStepSeconds{"dunlin_engine_step_seconds", "Time of one engine step", kHistogram, kTokenSeconds};
const MetricRow kRequestSuccess{"vllm:request_success_total", "Finished requests by reason", kCounter, {}};
const MetricRow kRequests{
    "dunlin_requests_total", "Generate and Embed calls by what ran and their gRPC status", kCounter, {}};
const MetricRow kRefusals{"dunlin_refusals_total", "Refused Generate and Embed calls by reason", kCounter, {}};
const MetricRow kBuildInfo{"dunlin_build_info", "Version of this server", MetricKind::kGauge, {}};

}  // namespace dunlin::server
