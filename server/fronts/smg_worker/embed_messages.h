// SPDX-License-Identifier: Apache-2.0
// Embed: one input, one vector. Owner: the call. Thread rule: one function at a time.
#pragma once

#include <string>

#include "server/fronts/smg_worker/engine_model.h"
#include "server/grpc_calls/embed_call_translator.h"

namespace dunlin::server {

class EngineEmbedTranslator final : public EmbedCallTranslator {
 public:
  // model outlives the translator.
  explicit EngineEmbedTranslator(const EngineModel* model) : model_(model) {}

  absl::Status Read(const grpc::ByteBuffer& message, ClientEmbedRequest* request) override;
  grpc::ByteBuffer Render(const std::string& request_id, const EmbedResult& result) override;

 private:
  const EngineModel* const model_;
};

}  // namespace dunlin::server
