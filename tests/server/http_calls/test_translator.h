// SPDX-License-Identifier: Apache-2.0
// The smallest translator: its body is {"prompt", "max_tokens", "stream", "pad"}, an event is "data: TEXT" and a blank
// line, and takes at least `pad` bytes for each token.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "server/http_calls/request_translator.h"
#include "server/serving/errors.h"

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
    request->prompt = json.value("prompt", "");
    request->sampling.temperature = 0.0F;
    request->stopping.max_tokens = json.value("max_tokens", 4);
    return absl::OkStatus();
  }
  bool streams() const override { return streams_; }
  void OnChunk(const OutputChunk& chunk, std::string* out) override {
    text_ += chunk.text;
    if (!streams_ || chunk.token_ids.empty()) return;
    out->append("data: " + chunk.text + std::string(pad_ * chunk.token_ids.size(), '.') + "\n\n");
  }
  void OnEnd(const ResponseEnd& end, const OutputChunk* last, std::string* out) override {
    if (last != nullptr) OnChunk(*last, out);
    if (!streams_) {
      *out = text_;
    } else {
      out->append(end.status.ok() ? "data: [DONE]\n\n" : "data: " + ErrorBody(end.status) + "\n\n");
    }
  }
  std::string ErrorBody(const absl::Status& status) override { return "error " + ReasonName(status); }

 private:
  bool streams_ = false;
  size_t pad_ = 0;
  std::string text_;
};

}  // namespace dunlin::server
