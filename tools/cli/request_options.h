// SPDX-License-Identifier: Apache-2.0
// The options of a generation that `dunlin generate` and `dunlin chat` share: model, profile, sampling, stopping and
// structured output, and how they fill a request.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "dunlin/v1/generation.pb.h"
#include "engine/request/draw_params.h"
#include "tools/cli/client_options.h"
#include "tools/cli/execution_options.h"

namespace dunlin::cli {

struct SamplingOptions : engine::DrawParamOverrides {
  std::optional<uint64_t> seed;
  std::vector<std::string> logit_bias;  // "ID=BIAS"
  std::vector<int32_t> allowed_token_ids;
  std::vector<std::string> bad_words;
  std::vector<std::string> bad_words_ids;  // each "1,2,3"
  bool ignore_model_bans = false;
};

struct StoppingOptions {
  std::optional<int32_t> max_tokens;
  std::optional<int32_t> min_tokens;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  bool clamp_max_tokens = false;
  bool include_stop = false;
};

// At most one is set, which the command line's parser sees to.
struct StructuredOptions {
  std::optional<std::string> json_schema;  // JSON or @FILE
  bool json_object = false;
  std::optional<std::string> regex;
  std::vector<std::string> choices;
  std::optional<std::string> grammar_file;

  // The name of the option that is set, or "".
  const char* name() const;
  bool any() const { return *name() != '\0'; }
};

struct RequestOptions {
  ServerAddress server;
  std::string model;
  ExecutionWords execution;
  SamplingOptions sampling;
  StoppingOptions stopping;
  StructuredOptions structured;
  int32_t priority = 0;
  std::string cache_salt;
  int64_t timeout_ms = 0;  // of a call; 0: none
};

// Declares the options. Values are validated by the server, not here, so that users see the server's own errors.
void AddRequestOptions(CLI::App* subcommand, RequestOptions* options);

// Fills everything but the input. Errors: INVALID_ARGUMENT, with the option's name, for a file that cannot be read and
// for a list that is not of its form.
absl::Status FillRequest(const RequestOptions& options, v1::GenerateRequest* request);

}  // namespace dunlin::cli
