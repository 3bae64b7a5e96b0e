// SPDX-License-Identifier: Apache-2.0
#include "tools/load/dataset_files.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace dunlin::tools::load {
namespace {

using Json = nlohmann::json;

constexpr int64_t kBytesPerToken = 4;  // English text in the vocabularies of GPT-2 and Llama
constexpr int64_t kMinTokens = 4;
constexpr int64_t kMaxPromptTokens = 1024;
constexpr int64_t kMaxTotalTokens = 2048;

absl::Status CannotRead(const std::string& path) {
  return absl::NotFoundError(absl::StrCat("--dataset-path: cannot read ", path));
}

int64_t TokensOf(const std::string& text) {
  return static_cast<int64_t>(text.size()) / kBytesPerToken;
}

// nullopt for a conversation that the filters drop.
std::optional<Prompt> FirstTurn(const Json& conversation, bool ignore_eos) {
  if (!conversation.is_object()) return std::nullopt;
  const Json turns = conversation.value("conversations", Json());
  if (!turns.is_array() || turns.size() < 2) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    if (!turns[i].is_object() || !turns[i].contains("value") || !turns[i]["value"].is_string()) return std::nullopt;
  }
  Prompt prompt;
  prompt.text = turns[0]["value"].get<std::string>();
  const int64_t input = TokensOf(prompt.text);
  const int64_t output = TokensOf(turns[1]["value"].get<std::string>());
  if (input < kMinTokens || output < kMinTokens || input > kMaxPromptTokens || input + output > kMaxTotalTokens) {
    return std::nullopt;
  }
  prompt.max_tokens = static_cast<int32_t>(output);
  prompt.ignore_eos = ignore_eos;
  return prompt;
}

absl::StatusOr<Prompt> FromLine(const std::string& line, const DatasetOptions& options) {
  const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object()) return absl::InvalidArgumentError("is not a JSON object");
  Prompt prompt;
  prompt.ignore_eos = options.ignore_eos;
  prompt.max_tokens = options.output_tokens;
  if (row.contains("max_tokens")) {
    if (!row["max_tokens"].is_number_integer() || row["max_tokens"].get<int64_t>() < 1 ||
        row["max_tokens"].get<int64_t>() > INT32_MAX) {
      return absl::InvalidArgumentError("has a max_tokens that is not an integer >= 1");
    }
    prompt.max_tokens = row["max_tokens"].get<int32_t>();
  }
  if (row.contains("prompt") && row["prompt"].is_string()) {
    prompt.text = row["prompt"].get<std::string>();
    if (!prompt.text.empty()) return prompt;
  }
  if (row.contains("token_ids") && row["token_ids"].is_array() && !row["token_ids"].empty()) {
    if (options.text_only) return absl::InvalidArgumentError("has token ids; a chat (--chat) takes texts");
    for (const Json& id : row["token_ids"]) {
      if (!id.is_number_integer()) return absl::InvalidArgumentError("has a token id that is not an integer");
      prompt.token_ids.push_back(id.get<int32_t>());
    }
    return prompt;
  }
  return absl::InvalidArgumentError("has neither a prompt (text) nor token_ids");
}

}  // namespace

absl::StatusOr<std::vector<Prompt>> ReadShareGpt(const DatasetOptions& options) {
  std::ifstream file(options.path);
  if (!file) return CannotRead(options.path);
  const Json list = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return absl::InvalidArgumentError(absl::StrCat(options.path, " is not a JSON list"));
  std::vector<Prompt> prompts;
  for (const Json& conversation : list) {
    if (std::optional<Prompt> prompt = FirstTurn(conversation, options.ignore_eos)) {
      prompts.push_back(*std::move(prompt));
    }
  }
  if (prompts.empty()) return absl::InvalidArgumentError(absl::StrCat(options.path, " has no usable conversation"));
  return prompts;
}

absl::StatusOr<std::vector<Prompt>> ReadJsonl(const DatasetOptions& options) {
  std::ifstream file(options.path);
  if (!file) return CannotRead(options.path);
  std::vector<Prompt> prompts;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    absl::StatusOr<Prompt> prompt = FromLine(line, options);
    if (!prompt.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(options.path, ", line ", number, " ", prompt.status().message()));
    }
    prompts.push_back(*std::move(prompt));
  }
  if (prompts.empty()) return absl::InvalidArgumentError(absl::StrCat(options.path, " has no line"));
  return prompts;
}

}  // namespace dunlin::tools::load
