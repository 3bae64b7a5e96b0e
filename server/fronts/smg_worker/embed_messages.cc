// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/smg_worker/embed_messages.h"

#include <utility>

#include "server/fronts/smg_worker/field_names.h"
#include "server/fronts/smg_worker/generate_messages.h"
#include "server/grpc_calls/unsigned_fields.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {

absl::Status EngineEmbedTranslator::Read(const grpc::ByteBuffer& message, ClientEmbedRequest* request) {
  vllm_engine::EmbedRequest wire;
  if (absl::Status s = ParseWire(message, &wire); !s.ok()) return s;
  if (absl::Status s = CheckUnsignedFields(wire); !s.ok()) return s;
  request->field_names = &kVllmEngineFieldNames;
  request->request_id = std::move(*wire.mutable_request_id());
  request->model = model_->ForEmbedding(request->principal);
  if (wire.has_tokenized()) request->inputs.emplace_back(TokenIdsFromWire(wire.tokenized().input_ids()));
  return absl::OkStatus();
}

grpc::ByteBuffer EngineEmbedTranslator::Render(const std::string& /*request_id*/, const EmbedResult& result) {
  vllm_engine::EmbedResponse response;
  response.mutable_embedding()->Add(result.call.vectors.begin(), result.call.vectors.end());
  response.set_prompt_tokens(static_cast<uint32_t>(result.usage.prompt_tokens));
  response.set_embedding_dim(static_cast<uint32_t>(result.call.request.dimensions));
  return SerializeWire(response);
}

}  // namespace dunlin::server
