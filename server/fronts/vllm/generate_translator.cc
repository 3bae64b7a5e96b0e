// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/vllm/generate_translator.h"

#include <cstddef>

#include "server/fronts/vllm/lora_calls.h"
#include "server/fronts/vllm/server_info.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {

absl::Status VllmGenerateTranslator::Read(const grpc::ByteBuffer& message, ClientRequest* request) {
  ::vllm::GenerateRequest wire;
  if (absl::Status parsed = ParseWire(message, &wire); !parsed.ok()) return parsed;
  VllmResponseFields fields;
  absl::Status read = VllmRequestFromWire(&wire, streams_, request, &fields);
  if (!read.ok()) return read;
  if (!wire.lora_name().empty()) {
    absl::Status named = NameAdapter(*core_, request->principal, wire.lora_name(), &request->model);
    if (!named.ok()) return named;
  }
  if (request->model.empty()) {
    const std::vector<ModelLease> models = GeneratingModels(*core_, request->principal);
    if (models.size() == 1) request->model = models.front()->name;
  }
  responses_ = VllmResponses(std::move(fields));
  if (request->num_outputs <= engine::kMaxOutputsPerRequest) outputs_.resize(static_cast<size_t>(request->num_outputs));
  return absl::OkStatus();
}

void VllmGenerateTranslator::OnChunk(const OutputChunk& chunk, WireMessages* out) {
  const auto index = static_cast<size_t>(chunk.index);
  outputs_[index].num_tokens += static_cast<int32_t>(chunk.token_ids.size());
  outputs_[index].finished = chunk.finish.has_value();
  const bool complete = responses_.Add(chunk, &response_);
  if (!streams_ || !complete) return;
  out->Add(response_);
  response_.Clear();
}

void VllmGenerateTranslator::OnEnd(WireMessages* out) {
  if (!streams_) out->Add(response_);
}

bool VllmGenerateTranslator::OnError(const absl::Status& error, WireMessages* out) {
  if (!absl::IsCancelled(error) || outputs_.empty()) return false;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].finished) continue;
    ::vllm::SequenceOutput* output = response_.mutable_outputs();
    output->set_index(static_cast<uint32_t>(i));
    output->mutable_finish_info()->set_num_output_tokens(static_cast<uint32_t>(outputs_[i].num_tokens));
    output->mutable_finish_info()->set_finish_reason(::vllm::FinishInfo::ABORTED);
    out->Add(response_);
    response_.Clear();
  }
  return true;
}

}  // namespace dunlin::server
