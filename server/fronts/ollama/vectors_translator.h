// SPDX-License-Identifier: Apache-2.0
// POST /api/embed, and /api/embeddings before it. Owner: the call. Thread rule: one function at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "server/fronts/ollama/call_facts.h"
#include "server/http_calls/embed_translator.h"
#include "server/json/field_table.h"

namespace dunlin::server::ollama {

enum class VectorsApi : uint8_t { kEmbed, kEmbeddings };

// What a body holds.
struct VectorsBody {
  ClientEmbedRequest* request;
};

// The tables of a route.
std::span<const FieldTable<VectorsBody>> FieldsOf(VectorsApi api);

class VectorsTranslator final : public EmbedTranslator {
 public:
  VectorsTranslator(VectorsApi api, CallFacts facts) : api_(api), facts_(std::move(facts)) {}

  absl::Status Read(std::string_view body, ClientEmbedRequest* request) override;
  std::string Document(const EmbedResult& result) const override;
  std::string LoadedDocument() const override;
  std::string ErrorBody(const absl::Status& status) const override;

 private:
  const VectorsApi api_;
  const CallFacts facts_;
  std::string model_;
};

}  // namespace dunlin::server::ollama
