// SPDX-License-Identifier: Apache-2.0
// POST /api/chat and /api/generate: lines of JSON, or one document. Owner: the call. Thread rule: one function at a
// time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/fronts/ollama/call_facts.h"
#include "server/fronts/ollama/generation_body.h"
#include "server/http_calls/request_translator.h"

namespace dunlin::server::ollama {

class GenerationTranslator final : public RequestTranslator {
 public:
  GenerationTranslator(GenerationApi api, CallFacts facts) : api_(api), facts_(std::move(facts)) {}

  absl::Status Read(std::string_view body, ClientRequest* request) override;
  bool streams() const override { return stream_; }
  StreamForm stream_form() const override;
  void OnChunk(const OutputChunk& chunk, std::string* out) override;
  void OnEnd(const ResponseEnd& end, std::string* out) override;
  std::string ErrorBody(const absl::Status& status) override;

 private:
  // What came since it was last sent.
  struct Unsent {
    std::string text;
    std::string reasoning;
    std::string logprobs;  // elements of a list in JSON
  };

  // `"message":{...},"logprobs":[...]`, or the members of a generate response. num_calls: of calls_, whole ones.
  void AppendOutput(const Unsent& output, size_t num_calls, std::string* out) const;
  // A line of a stream, with what has not been sent; nothing if all has been.
  void AppendLine(size_t num_calls, std::string* out);
  void AppendEnd(std::string* out) const;

  const GenerationApi api_;
  const CallFacts facts_;
  bool stream_ = true;
  bool loads_only_ = false;
  std::string head_;  // of every object: "model" and "created_at"
  Unsent unsent_;
  std::vector<ToolCallDelta> calls_;  // all
  size_t num_sent_calls_ = 0;
  std::string execution_;  // in JSON
  std::string fingerprint_;
  std::optional<OutputFinish> finish_;
  CallTotals totals_;
};

}  // namespace dunlin::server::ollama
