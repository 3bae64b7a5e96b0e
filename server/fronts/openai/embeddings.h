// SPDX-License-Identifier: Apache-2.0
// POST /v1/embeddings. Owner: the call. Thread rule: one function at a time.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/http_calls/embed_translator.h"
#include "server/http_calls/response_facts.h"
#include "server/json/field_table.h"
#include "server/serving/output/response_writer.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server {

// What a body holds.
struct EmbeddingsBody {
  ClientEmbedRequest* request = nullptr;
  bool base64 = false;
};

// The fields of the route.
FieldTable<EmbeddingsBody> EmbeddingsFields();

class EmbeddingsTranslator final : public EmbedTranslator {
 public:
  explicit EmbeddingsTranslator(const ResponseFacts& facts) : facts_(facts) {}

  absl::Status Read(std::string_view body, ClientEmbedRequest* request) override;
  // Values are floats, or base64 of little-endian IEEE 754 single precision.
  std::string Document(const EmbedResult& result) const override;
  std::string ErrorBody(const absl::Status& status) const override;

 private:
  const ResponseFacts facts_;
  std::string model_;
  bool base64_ = false;
};

}  // namespace dunlin::server
