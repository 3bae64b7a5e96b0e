// SPDX-License-Identifier: Apache-2.0
// The chat options of `dunlin generate`, and the chat that they make. Messages and tools are JSON as transformers and
// OpenAI's API write it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "dunlin/v1/generation.pb.h"

namespace dunlin::server {

struct ChatOptions {
  bool chat = false;  // PROMPT is one message of the user
  std::string messages_json;
  std::string tools_json;
  std::string template_options_json;
  bool continue_final_message = false;
  bool show_prompt = false;

  bool any() const { return chat || !messages_json.empty(); }
};

void AddChatOptions(CLI::App* subcommand, ChatOptions* options);

// Errors: INVALID_ARGUMENT, for JSON that is no list of messages. Everything else is for the server to check.
absl::StatusOr<v1::Chat> MakeChat(const ChatOptions& options, const std::string& prompt);

}  // namespace dunlin::server
