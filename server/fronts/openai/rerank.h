// SPDX-License-Identifier: Apache-2.0
// POST /v1/rerank and /rerank, as Cohere's, Jina's and vLLM's servers have them, and POST /v2/rerank, as Cohere's
// client does. Owner: the call. Thread rule: one function at a time. Source: the models of ClientV2.rerank in the
// package cohere 7.3.1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/http_calls/embed_translator.h"
#include "server/http_calls/response_facts.h"
#include "server/json/field_table.h"
#include "server/serving/output/response_writer.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server {

// What a body holds.
struct RerankBody {
  ClientEmbedRequest* request = nullptr;
  bool return_documents = false;
};

// The fields of the route.
FieldTable<RerankBody> RerankFields();

// The second truncates what is too long, and has a form of its own around the results and for errors.
enum class RerankApi : uint8_t { kShared, kCohereV2 };

class RerankTranslator final : public EmbedTranslator {
 public:
  explicit RerankTranslator(const ResponseFacts& facts, RerankApi api = RerankApi::kShared)
      : facts_(facts), api_(api) {}

  absl::Status Read(std::string_view body, ClientEmbedRequest* request) override;
  std::string Document(const EmbedResult& result) const override;
  std::string ErrorBody(const absl::Status& status) const override;

 private:
  // `"results":[...]`
  void AppendResults(const EmbedResult& result, std::string* out) const;

  const ResponseFacts facts_;
  const RerankApi api_;
  std::string model_;
  std::vector<std::string> documents_;  // where the response repeats them
};

}  // namespace dunlin::server
