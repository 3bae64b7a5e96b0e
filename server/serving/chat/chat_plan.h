// SPDX-License-Identifier: Apache-2.0
// What a chat's output is, before there is one: the tools that may be called, how the output is divided, and the
// grammar that tool_choice and structured_output make. Pure functions, any thread; they take time linear in the tools.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "server/models/served_model.h"
#include "server/serving/output/chat_output.h"
#include "server/serving/record/client_request.h"
#include "text/chat_output/tool_set.h"

namespace dunlin::server {

// Of the tools, when tool_choice is required or names one: they become a grammar.
inline constexpr size_t kMaxGrammarTools = 128;
inline constexpr size_t kMaxToolNameBytes = 64;
inline constexpr size_t kMaxToolsJsonBytes = size_t{256} << 10;

// Before the prompt is made: checks tool_choice, and takes the tools from a chat whose choice is none, so that the
// template does not see them. Errors: INVALID_ARGUMENT (required or named: without a chat, without tools, beside
// structured_output, with a model whose form of calls is not known; a name that no tool has; the bounds above).
absl::Status SettleToolChoice(const ServedModel& model, ClientRequest* client);

// How each output of a chat is divided; nullopt: not at all. prompt: its text. REQUIRES: the chat is checked.
std::optional<ChatOutput::Options> PlanChatOutput(const ServedModel& model, const ClientRequest& client,
                                                  std::string_view prompt, size_t max_message_bytes);

// Replaces structured_output by what the whole output must match: calls where tool_choice demands them, and reasoning
// before what it constrains. prompt: of a chat, its text. REQUIRES: SettleToolChoice was OK. Errors: INVALID_ARGUMENT
// with GRAMMAR_UNSUPPORTED or GRAMMAR_TOO_COMPLEX (tools that the form of the model's calls cannot be held to).
absl::Status SettleConstraint(const ServedModel& model, std::string_view prompt, ClientRequest* client);

}  // namespace dunlin::server
