// SPDX-License-Identifier: Apache-2.0
// The smallest translator: its body is {"prompt", "further": [further prompts], "max_tokens", "stream", "pad", "odd"},
// an event is "data: TEXT" and a blank line, and takes at least `pad` bytes for each token. A document is the outputs'
// texts, with a '|' after each but the last. "odd" has no effect.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "server/http_calls/request_translator.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {

class TestTranslator final : public RequestTranslator {
 public:
  static std::unique_ptr<RequestTranslator> New() { return std::make_unique<TestTranslator>(); }

  absl::Status Read(std::string_view body, ClientRequest* request) override {
    const nlohmann::json json = nlohmann::json::parse(body, nullptr, false);
    if (!json.is_object()) return MakeError(Reason::kMalformedMessage, "the body is not a JSON object");
    streams_ = json.value("stream", false);
    pad_ = json.value("pad", size_t{0});
    request->model = json.value("model", "tiny");
    if (json.contains("odd")) request->ignored.Add("odd");
    request->prompt = json.value("prompt", "");
    for (const std::string& prompt : json.value("further", std::vector<std::string>())) further_.emplace_back(prompt);
    request->sampling.temperature = 0.0F;
    request->stopping.max_tokens = json.value("max_tokens", 4);
    return absl::OkStatus();
  }
  std::vector<ClientPrompt> TakeFurtherPrompts() override { return std::move(further_); }
  bool streams() const override { return streams_; }
  void OnChunk(const OutputChunk& chunk, std::string* out) override {
    texts_[chunk.index] += chunk.text;
    if (!streams_ || chunk.token_ids.empty()) return;
    out->append("data: " + chunk.text + std::string(pad_ * chunk.token_ids.size(), '.') + "\n\n");
  }
  void OnEnd(const ResponseEnd& end, std::string* out) override {
    if (!streams_) {
      *out = absl::StrJoin(texts_, "|", [](std::string* to, const auto& text) { to->append(text.second); });
    } else {
      out->append(end.status.ok() ? "data: [DONE]\n\n" : "data: " + ErrorBody(end.status) + "\n\n");
    }
  }
  std::string ErrorBody(const absl::Status& status) override { return "error " + ReasonName(status); }

 private:
  bool streams_ = false;
  size_t pad_ = 0;
  std::vector<ClientPrompt> further_;
  std::map<int32_t, std::string> texts_;  // by output
};

}  // namespace dunlin::server
