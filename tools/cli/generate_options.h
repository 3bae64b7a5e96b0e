// SPDX-License-Identifier: Apache-2.0
// The options of `dunlin generate` and the request built from them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dunlin/v1/generation.pb.h"
#include "tools/cli/chat_options.h"
#include "tools/cli/request_options.h"

namespace dunlin::cli {

struct GenerateOptions {
  RequestOptions request;
  ChatOptions chat;
  bool prompt_is_message = false;   // --chat
  std::vector<std::string> images;  // files; the prompt is a message then, too
  bool continue_final_message = false;
  bool show_prompt = false;
  bool parse_special_tokens = false;
  std::optional<int32_t> truncate_prompt_tokens;
  std::vector<int32_t> token_ids;
  std::optional<int32_t> n;
  std::optional<int32_t> logprobs;
  std::optional<int32_t> prompt_logprobs;
  bool keep_special_tokens = false;
  bool omit_text = false;
  bool echo = false;
  std::string request_id;
  bool json = false;
  std::string summary_file;
  std::string prompt;
  std::string prompt_file;  // "-": the standard input
  bool has_prompt = false;  // of either

  bool HasMessage() const { return prompt_is_message || !images.empty(); }
  bool IsChat() const { return HasMessage() || !chat.messages.empty(); }
};

// Declares the options. Values are validated by the server, not here, so that users see the server's own errors.
void AddGenerateOptions(CLI::App* subcommand, GenerateOptions* options);

// Reads --prompt-file. Errors: INVALID_ARGUMENT, with the options' names, for options that do not go together, and for
// a prompt that is not UTF-8; and as FillRequest, MakeChat.
absl::StatusOr<v1::GenerateRequest> MakeRequest(const GenerateOptions& options);

}  // namespace dunlin::cli
