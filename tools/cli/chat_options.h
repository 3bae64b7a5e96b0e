// SPDX-License-Identifier: Apache-2.0
// The options of a chat that `dunlin generate` and `dunlin chat` share, and the chat that they make.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dunlin/v1/generation.pb.h"
#include "tools/cli/request_options.h"

namespace dunlin::cli {

// Texts are JSON or @FILE.
struct ChatOptions {
  std::string messages;
  std::string tools;
  std::string template_options;
  std::string tool_choice;  // auto, none, required or a tool's name; empty: the server's default
  bool no_parallel_tool_calls = false;
  bool raw_chat_output = false;
};

void AddChatOptions(CLI::App* subcommand, ChatOptions* options);

// Errors: INVALID_ARGUMENT with the option's name, for a file that cannot be read and for JSON that is no list of
// messages. Everything else is for the server to check.
absl::StatusOr<v1::Chat> MakeChat(const ChatOptions& options);

// INVALID_ARGUMENT, with the options' names, if both the tool choice and a structured output constrain the output.
absl::Status CheckConstraints(const ChatOptions& chat, const StructuredOptions& structured);

}  // namespace dunlin::cli
