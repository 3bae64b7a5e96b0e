// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/infer_translators.h"

#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server::kserve {
namespace {

constexpr char kFinalResponse[] = "triton_final_response";

void MarkFinal(bool last, inference::ModelInferResponse* response) {
  (*response->mutable_parameters())[kFinalResponse].set_bool_param(last);
}

void Add(Rpc rpc, inference::ModelInferResponse* response, bool last, WireMessages* out) {
  if (rpc == Rpc::kInfer) return out->Add(*response);
  MarkFinal(last, response);
  inference::ModelStreamInferResponse streamed;
  streamed.mutable_infer_response()->Swap(response);
  out->Add(streamed);
}

}  // namespace

absl::Status GenerateTranslator::Read(const grpc::ByteBuffer& message, ClientRequest* request) {
  inference::ModelInferRequest wire;
  if (absl::Status s = ParseWire(message, &wire); !s.ok()) return s;
  return GenerateRequestOf(wire, rpc_, request, responses_.form());
}

void GenerateTranslator::OnChunk(const OutputChunk& chunk, WireMessages* out) {
  responses_.OnChunk(
      chunk, [this, out](inference::ModelInferResponse* response, bool last) { Add(rpc_, response, last, out); });
}

void GenerateTranslator::OnEnd(WireMessages* out) {
  responses_.OnEnd([this, out](inference::ModelInferResponse* response, bool last) { Add(rpc_, response, last, out); });
}

absl::Status EmbedTranslator::Read(const grpc::ByteBuffer& message, ClientEmbedRequest* request) {
  inference::ModelInferRequest wire;
  if (absl::Status s = ParseWire(message, &wire); !s.ok()) return s;
  return EmbedRequestOf(wire, request, &form_);
}

grpc::ByteBuffer EmbedTranslator::Render(const std::string& /*request_id*/, const EmbedResult& result) {
  inference::ModelInferResponse response;
  FillEmbedding(form_, result, &response);
  return SerializeWire(response);
}

inference::ModelStreamInferResponse EmbedTranslator::StreamResponse(const EmbedResult& result) const {
  inference::ModelStreamInferResponse streamed;
  FillEmbedding(form_, result, streamed.mutable_infer_response());
  MarkFinal(true, streamed.mutable_infer_response());
  return streamed;
}

inference::ModelStreamInferResponse StreamError(const std::string& id, const std::string& message) {
  inference::ModelStreamInferResponse streamed;
  streamed.set_error_message(message.empty() ? "the request failed" : message);  // "" is no error
  streamed.mutable_infer_response()->set_id(id);
  MarkFinal(true, streamed.mutable_infer_response());
  return streamed;
}

}  // namespace dunlin::server::kserve
