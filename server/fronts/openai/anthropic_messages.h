// SPDX-License-Identifier: Apache-2.0
// POST /v1/messages, as Anthropic's clients speak it. Owner: the call. Thread rule: one function at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/fronts/openai/output_blocks.h"
#include "server/http_calls/request_translator.h"
#include "server/http_calls/response_facts.h"

namespace dunlin::server {

class AnthropicTranslator final : public RequestTranslator {
 public:
  explicit AnthropicTranslator(const ResponseFacts& facts) : facts_(facts) {}

  absl::Status Read(std::string_view body, ClientRequest* request) override;
  bool streams() const override { return stream_; }
  void OnChunk(const OutputChunk& chunk, std::string* out) override;
  void OnEnd(const ResponseEnd& end, std::string* out) override;
  std::string ErrorBody(const absl::Status& status) override;

 private:
  void Begin(const OutputChunk& first);
  void AppendStop(std::string* out) const;
  void AppendUsage(std::string* out) const;
  void AppendDocument(std::string* out) const;

  const ResponseFacts facts_;
  bool stream_ = false;
  std::string model_;
  std::string head_;       // of the message object: "id" to "model"
  std::string execution_;  // in JSON
  std::string fingerprint_;
  std::optional<OutputFinish> finish_;
  OutputBlocks blocks_;
  CallTotals totals_;
};

// The body of POST /v1/messages/count_tokens -> the model and the chat, in *request. strict: as ResponseFacts::strict.
// Errors: as Read.
absl::Status ReadCountTokens(std::string_view body, bool strict, ClientRequest* request);
// {"input_tokens": N}
std::string CountTokensBody(size_t tokens);

}  // namespace dunlin::server
