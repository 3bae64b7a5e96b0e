// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/dunlin_v1/model_service.h"

#include <string>

#include "absl/status/status.h"
#include "engine/base/string_view.h"
#include "server/fronts/dunlin_v1/embed_messages.h"
#include "server/fronts/dunlin_v1/execution.h"
#include "server/serving/chat_prompt.h"
#include "server/serving/errors.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {
namespace {

void DescribeModel(const ServedModel& model, v1::Model* wire) {
  const engine::ModelConfig& config = model.model->config();
  wire->set_name(model.name);
  wire->set_architecture(config.architecture);
  wire->set_parameters(model.model->num_parameters());
  wire->set_max_context_tokens(model.any_engine()->max_context_tokens());
  wire->set_vocab_size(config.vocab_size);
  for (const engine::Precision precision : model.model->precisions()) wire->add_precisions(ToWire(precision));
  wire->set_device(ToWire(model.profiles->rows().front().profile.device));
  wire->mutable_eos_token_ids()->Assign(config.eos_token_ids.begin(), config.eos_token_ids.end());
  wire->set_kind(config.is_encoder() ? v1::MODEL_KIND_ENCODER : v1::MODEL_KIND_DECODER);
  if (!config.is_encoder()) {
    const absl::Status chats = CheckChats(model);
    wire->mutable_chat()->set_supported(chats.ok());
    if (!chats.ok()) wire->mutable_chat()->set_reason(std::string(engine::StdView(chats.message())));
    return;
  }
  wire->mutable_embedding()->set_dimensions(config.hidden_dim);
  wire->mutable_embedding()->set_pooling(ToWire(model.embedding.pooling));
  wire->mutable_embedding()->set_normalize(model.embedding.normalize);
}

void DescribeProfile(const engine::ProfileSupport& row, v1::Profile* wire) {
  *wire->mutable_execution() = ToWire(row.profile);
  wire->set_supported(row.supported);
  wire->mutable_reasons()->Assign(row.reasons.begin(), row.reasons.end());
}

grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* ModelService::ListModels(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  v1::ListModelsRequest message;
  if (absl::Status s = ParseWire(*request, &message); !s.ok()) return Finished(context, s);
  v1::ListModelsResponse wire;
  for (const ModelLease& model : repository_.List()) DescribeModel(*model, wire.add_models());
  *response = SerializeWire(wire);
  return Finished(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* ModelService::GetModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  v1::GetModelRequest message;
  if (absl::Status s = ParseWire(*request, &message); !s.ok()) return Finished(context, s);
  const ModelLease model = repository_.Lease(message.name());
  if (model == nullptr) return Finished(context, UnknownModel(message.name()));
  v1::GetModelResponse wire;
  DescribeModel(*model, wire.mutable_model());
  for (const engine::ProfileSupport& row : model->profiles->rows()) DescribeProfile(row, wire.add_profiles());
  *response = SerializeWire(wire);
  return Finished(context, absl::OkStatus());
}

}  // namespace dunlin::server
