// SPDX-License-Identifier: Apache-2.0
// POST /v1/rerank and /rerank, as Cohere's, Jina's and vLLM's servers have them. Owner: the call. Thread rule: one
// function at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/fronts/openai/field_table.h"
#include "server/fronts/openai/response_facts.h"
#include "server/http_calls/embed_translator.h"
#include "server/serving/client_request.h"
#include "server/serving/response_writer.h"

namespace dunlin::server {

// What a body holds.
struct RerankBody {
  ClientEmbedRequest* request = nullptr;
  bool return_documents = false;
};

// The fields of the route.
FieldTable<RerankBody> RerankFields();

class RerankTranslator final : public EmbedTranslator {
 public:
  explicit RerankTranslator(const ResponseFacts& facts) : facts_(facts) {}

  absl::Status Read(std::string_view body, ClientEmbedRequest* request) override;
  std::string Document(const EmbedResult& result) const override;
  std::string ErrorBody(const absl::Status& status) const override;

 private:
  const ResponseFacts facts_;
  std::string model_;
  std::vector<std::string> documents_;  // where the response repeats them
};

}  // namespace dunlin::server
