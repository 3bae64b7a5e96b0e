// SPDX-License-Identifier: Apache-2.0
// The routes infer, generate and generate_stream between their bodies and the serving core.
// Owner: the call. Thread rule: one function at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/fronts/kserve/infer_json.h"
#include "server/fronts/kserve/infer_responses.h"
#include "server/http_calls/embed_translator.h"
#include "server/http_calls/request_translator.h"

namespace dunlin::server::kserve {

enum class HttpAction : uint8_t { kInfer, kGenerateWhole, kGenerateStream };

// What a call knows before its body, and what its response's headers say.
struct HttpCallFacts {
  HttpAction action = HttpAction::kInfer;
  std::string model;
  std::string version;               // "" if the path has none
  std::optional<size_t> json_bytes;  // of the request's body: Inference-Header-Content-Length
  // Of the response's body; 0: JSON alone. Written before the response is handed on, read as its head is sent.
  std::atomic<size_t> response_json_bytes = 0;
};

class HttpGenerateTranslator final : public RequestTranslator {
 public:
  explicit HttpGenerateTranslator(std::shared_ptr<HttpCallFacts> facts) : facts_(std::move(facts)) {}

  absl::Status Read(std::string_view body, ClientRequest* request) override;
  bool streams() const override { return facts_->action == HttpAction::kGenerateStream; }
  void OnChunk(const OutputChunk& chunk, std::string* out) override;
  void OnEnd(const ResponseEnd& end, std::string* out) override;
  std::string ErrorBody(const absl::Status& status) override;

 private:
  void Append(const inference::ModelInferResponse& response, std::string* out);

  const std::shared_ptr<HttpCallFacts> facts_;
  InferResponses responses_;
  BinaryOutputs binary_;
};

// infer of an embedding model.
class HttpEmbedTranslator final : public server::EmbedTranslator {
 public:
  explicit HttpEmbedTranslator(std::shared_ptr<HttpCallFacts> facts) : facts_(std::move(facts)) {}

  absl::Status Read(std::string_view body, ClientEmbedRequest* request) override;
  std::string Document(const EmbedResult& result) const override;
  std::string ErrorBody(const absl::Status& status) const override;

 private:
  const std::shared_ptr<HttpCallFacts> facts_;
  ResponseForm form_;
  BinaryOutputs binary_;
};

}  // namespace dunlin::server::kserve
