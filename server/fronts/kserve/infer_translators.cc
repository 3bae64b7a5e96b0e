// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/infer_translators.h"

#include <utility>

#include "kernels/api/attention_backend.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"
#include "server/fronts/kserve/tensor_codec.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server::kserve {
namespace {

constexpr char kFinalResponse[] = "triton_final_response";

void Identify(const ResponseForm& form, inference::ModelInferResponse* response) {
  response->set_model_name(form.model);
  response->set_model_version(kModelVersion);
  response->set_id(form.id);
}

void SetText(const char* name, const char* text, inference::ModelInferResponse* response) {
  (*response->mutable_parameters())[name].set_string_param(text);
}

void Describe(const engine::ExecutionProfile& profile, inference::ModelInferResponse* response) {
  SetText("device", kernels::Traits(profile.device).name, response);
  SetText("attention_backend", kernels::Traits(profile.attention_backend).name, response);
  SetText("precision", kernels::Traits(profile.precision).name, response);
}

void MarkFinal(bool last, inference::ModelInferResponse* response) {
  (*response->mutable_parameters())[kFinalResponse].set_bool_param(last);
}

}  // namespace

absl::Status GenerateTranslator::Read(const grpc::ByteBuffer& message, ClientRequest* request) {
  inference::ModelInferRequest wire;
  if (absl::Status s = ParseWire(message, &wire); !s.ok()) return s;
  return GenerateRequestOf(wire, rpc_, request, &form_);
}

void GenerateTranslator::OnChunk(const OutputChunk& chunk, WireMessages* out) {
  if (chunk.profile.has_value()) profile_ = chunk.profile;
  const auto index = static_cast<size_t>(chunk.index);
  if (parts_.size() <= index) parts_.resize(index + 1);
  OutputPart& part = parts_[index];
  Accumulate(chunk, &part);
  if (!form_.stream) return;
  // The serving core's first chunk may hold no token yet.
  if (chunk.token_ids.empty() && chunk.text.empty() && !chunk.finish.has_value()) return;
  if (chunk.finish.has_value()) ++num_finished_;
  AddResponse({&part, 1}, chunk.finish.has_value() && num_finished_ == form_.num_outputs, out);
  ClearSent(&part);
}

void GenerateTranslator::OnEnd(WireMessages* out) {
  if (!form_.stream) AddResponse(parts_, true, out);
}

void GenerateTranslator::AddResponse(std::span<const OutputPart> parts, bool last, WireMessages* out) {
  inference::ModelStreamInferResponse streamed;
  inference::ModelInferResponse* response = streamed.mutable_infer_response();
  Identify(form_, response);
  if (profile_.has_value()) Describe(*std::exchange(profile_, std::nullopt), response);
  const bool tells_nothing = form_.outputs == kTextOutput && parts.front().text.empty();
  if (!(last && form_.stream && form_.empty_final_response && tells_nothing)) {
    AddOutputs(form_.outputs, parts, response);
  }
  if (rpc_ == Rpc::kInfer) return out->Add(*response);
  MarkFinal(last, response);
  out->Add(streamed);
}

absl::Status EmbedTranslator::Read(const grpc::ByteBuffer& message, ClientEmbedRequest* request) {
  inference::ModelInferRequest wire;
  if (absl::Status s = ParseWire(message, &wire); !s.ok()) return s;
  return EmbedRequestOf(wire, request, &form_);
}

grpc::ByteBuffer EmbedTranslator::Render(const std::string& /*request_id*/, const EmbedResult& result) {
  inference::ModelInferResponse response;
  Fill(result, &response);
  return SerializeWire(response);
}

inference::ModelStreamInferResponse EmbedTranslator::StreamResponse(const EmbedResult& result) const {
  inference::ModelStreamInferResponse streamed;
  Fill(result, streamed.mutable_infer_response());
  MarkFinal(true, streamed.mutable_infer_response());
  return streamed;
}

void EmbedTranslator::Fill(const EmbedResult& result, inference::ModelInferResponse* response) const {
  const engine::EncodeRequest& request = result.call.request;
  Identify(form_, response);
  Describe(request.profile, response);
  AddFp32Matrix(kEmbeddingOutput, std::ssize(request.lengths), request.dimensions, result.call.vectors.data(),
                response);
}

inference::ModelStreamInferResponse StreamError(const std::string& id, const std::string& message) {
  inference::ModelStreamInferResponse streamed;
  streamed.set_error_message(message.empty() ? "the request failed" : message);  // "" is no error
  streamed.mutable_infer_response()->set_id(id);
  MarkFinal(true, streamed.mutable_infer_response());
  return streamed;
}

}  // namespace dunlin::server::kserve
