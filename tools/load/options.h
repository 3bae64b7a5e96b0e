// SPDX-License-Identifier: Apache-2.0
// The options of `dunlin load`, as given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/load/client.h"
#include "tools/load/dataset.h"
#include "tools/load/knee_search.h"
#include "tools/load/load_shape.h"

namespace dunlin::tools::load {

struct LoadOptions {
  std::string address;       // HOST:PORT
  std::string api_key_file;  // whose key becomes request.api_key
  std::string protocol = "dunlin";
  std::string endpoint;  // OpenAI: path; "" is the API's own
  int64_t connect_timeout_ms = 10000;
  std::string mix;
  std::string arrivals = "poisson";
  std::string dataset = "random";
  std::string prompt_form = "auto";
  std::string cancel_after;
  std::string slo;
  std::vector<std::string> checks;
  std::string server_metrics;
  std::string json_file;
  std::string report_file;
  std::string charts_dir;
  std::string label;
  bool no_ignore_eos = false;
  bool quiet = false;
  bool sweep = false;
  KneeSearch::Options search;
  RequestOptions request;
  DatasetOptions data;
  LoadShape shape;
};

// Translates the textual options into request, data, shape and search. Errors: INVALID_ARGUMENT naming the option.
absl::Status Resolve(LoadOptions* options);

}  // namespace dunlin::tools::load
