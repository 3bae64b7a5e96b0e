// SPDX-License-Identifier: Apache-2.0
// A run as one JSON object: the keys of `vllm bench serve`, then ours.
//
//   ours, top level: sent, refused, deadline, cancelled, unfinished, goodput_ratio, mean_tokens_per_message,
//   client_cpu_seconds, client_cpu_us_per_token, and the statistics of refusal, send_delay and beyond_engine (of
//   servers that report their engine's time); reasons [{reason, count, with_retry_info, p50_ms, p99_ms, example}];
//   profiles [{profile, the same keys}]; timeline {slot_s, a list for each column}; histograms {ttft_ms, itl_ms: [[low,
//   high, count]]}; server {before, max, after, growth (after - before), samples}
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/load/load_shape.h"
#include "tools/load/mix.h"
#include "tools/load/recorder.h"
#include "tools/load/server_watch.h"

namespace dunlin::tools::load {

using Json = nlohmann::ordered_json;

struct RunDescription {
  std::string protocol;  // "dunlin", "openai"
  std::string model;
  std::string dataset;
  std::string label;
  std::string date;  // UTC, ISO 8601
  LoadShape shape;
  Slo slo;
  std::vector<MixEntry> mix;
};

Json ResultJson(const RunDescription& run, const Recording& recording, const std::vector<ServerSample>& server);

// The summary printed at the end of a run.
std::string ResultText(const Json& result);

}  // namespace dunlin::tools::load
