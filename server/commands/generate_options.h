// SPDX-License-Identifier: Apache-2.0
// The options of `dunlin generate` and the request built from them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dunlin/v1/generation.pb.h"
#include "server/commands/chat_options.h"
#include "server/commands/execution_options.h"

namespace dunlin::server {

struct GenerateOptions {
  std::string address = "127.0.0.1:50051";
  std::string model;
  ExecutionWords execution;
  std::optional<int32_t> max_tokens;
  std::optional<int32_t> min_tokens;
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::optional<int32_t> logprobs;
  std::optional<int32_t> prompt_logprobs;
  std::vector<int32_t> token_ids;
  std::string cache_salt;
  std::string request_id;
  int32_t priority = 0;
  bool ignore_eos = false;
  std::optional<int32_t> n;
  int64_t timeout_ms = 0;
  bool json = false;
  std::string summary_file;
  ChatOptions chat;
  std::string prompt;
  bool has_prompt = false;
};

// Declares the options. Values are validated by the server, not here, so that users see the server's own errors.
void AddGenerateOptions(CLI::App* subcommand, GenerateOptions* options);

// Errors: INVALID_ARGUMENT, as MakeChat.
absl::StatusOr<v1::GenerateRequest> MakeRequest(const GenerateOptions& options);

}  // namespace dunlin::server
