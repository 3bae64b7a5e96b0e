// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/dunlin_v1/model_service.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/string_view.h"
#include "engine/model/spec/rank_config.h"
#include "server/fronts/dunlin_v1/embed_messages.h"
#include "server/fronts/dunlin_v1/execution.h"
#include "server/grpc_calls/draw_param_fields.h"
#include "server/serving/chat/chat_prompt.h"
#include "server/serving/resolve/adapter_changes.h"
#include "server/serving/resolve/key_limits.h"
#include "server/serving/resolve/model_changes.h"
#include "server/serving/resolve/profile_alias.h"
#include "server/serving/resolve/resolve.h"
#include "server/transport/grpc/call_access.h"
#include "server/transport/grpc/call_metadata.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {
namespace {

void DescribeGeneration(const ServedModel& model, v1::GenerationDefaults* wire) {
  const engine::SamplingParams& sampling = model.sampling_defaults;
  WriteDrawParams(sampling, wire);
  if (model.default_max_tokens.has_value()) wire->set_max_tokens(*model.default_max_tokens);
  wire->mutable_suppress_tokens()->Assign(sampling.suppressed_token_ids.begin(), sampling.suppressed_token_ids.end());
  wire->mutable_begin_suppress_tokens()->Assign(sampling.begin_suppressed_token_ids.begin(),
                                                sampling.begin_suppressed_token_ids.end());
  for (const std::vector<engine::TokenId>& word : sampling.bad_words) {
    wire->add_bad_words_ids()->mutable_ids()->Assign(word.begin(), word.end());
  }
}

constexpr v1::ModelState kWireStates[kNumModelStates] = {v1::MODEL_STATE_UNLOADED, v1::MODEL_STATE_LOADING,
                                                         v1::MODEL_STATE_READY, v1::MODEL_STATE_UNLOADING,
                                                         v1::MODEL_STATE_FAILED};

void DescribeStatus(const ModelStatus& status, v1::ModelStatus* wire) {
  wire->set_state(kWireStates[static_cast<size_t>(status.state)]);
  wire->set_loading(status.loading);
  wire->set_failure(status.failure);
  wire->set_loads(status.loads);
  wire->set_load_failures(status.load_failures);
  wire->set_loads_on_request(status.on_request);
  wire->set_waiting_requests(static_cast<uint32_t>(status.waiting));
  wire->set_idle_unloads(status.idle_unloads);
  wire->set_evictions(status.evictions);
}

void DescribeAdapter(const AdapterOfModel& row, v1::Adapter* wire) {
  wire->set_name(row.adapter.name);
  wire->set_model(row.model);
  wire->set_path(row.adapter.path);
  wire->set_loaded(row.adapter.loaded);
  wire->set_id(row.adapter.id);
  wire->set_rank(row.adapter.rank);
  wire->set_bytes(row.adapter.bytes);
  wire->set_failure(row.adapter.failure);
}

void DescribeAdapters(const ModelStatus& status, v1::Model* wire) {
  wire->set_max_adapters(status.max_adapters);
  for (const AdapterStatus& adapter : status.adapters) DescribeAdapter({status.name, adapter}, wire->add_adapters());
}

// A model that is not in memory, as far as its memory plan knows it.
void DescribeUnserved(const ModelStatus& status, v1::Model* wire) {
  wire->set_name(status.name);
  DescribeStatus(status, wire->mutable_status());
  DescribeAdapters(status, wire);
  if (status.max_context_tokens == 0) return;
  wire->set_max_context_tokens(status.max_context_tokens);
  wire->set_kind(status.encoder ? v1::MODEL_KIND_ENCODER : v1::MODEL_KIND_DECODER);
}

void DescribePool(const engine::EngineStats& stats, v1::KvPool* wire) {
  wire->set_pages_total(stats.pages_total);
  wire->set_pages_backed(stats.pages_backed);
  wire->set_growing(stats.pages_backed + stats.pages_missing < stats.pages_total);
}

void DescribeRank(const engine::Model& rank, v1::RankShare* wire) {
  const engine::RankShare share = engine::ShareOf(rank.rank_config());
  wire->set_heads(share.heads);
  wire->set_kv_heads(share.kv_heads);
  wire->set_recurrent_heads(share.recurrent_heads);
  wire->set_channels(share.channels);
  wire->set_ffn_dim(share.ffn_dim);
  wire->set_expert_ffn_dim(share.expert_ffn_dim);
  wire->set_hidden_columns(share.hidden_columns);
  wire->set_vocab_rows(share.vocab_rows);
  wire->set_device(rank.device()->description);
}

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
  const int32_t num_ranks = model.model->num_ranks();
  for (int32_t rank = 0; num_ranks > 1 && rank < num_ranks; ++rank) {
    DescribeRank(model.model->of_rank(rank), wire->add_ranks());
  }
  if (!config.is_encoder()) {
    DescribeGeneration(model, wire->mutable_generation());
    DescribePool(model.engine->stats(), wire->mutable_kv_pool());
    wire->set_takes_images(model.sees_images());
    const absl::Status chats = CheckChats(model);
    wire->mutable_chat()->set_supported(chats.ok());
    if (chats.ok()) {
      const text::ChatOutputForms& forms = model.chat_forms;
      wire->mutable_chat()->set_tool_parser(forms.calls == nullptr ? "none" : forms.calls->name);
      wire->mutable_chat()->set_reasoning_parser(forms.reasoning == nullptr ? "none" : forms.reasoning->name);
    }
    if (!chats.ok()) wire->mutable_chat()->set_reason(std::string(engine::StdView(chats.message())));
    return;
  }
  wire->mutable_embedding()->set_dimensions(config.hidden_dim);
  wire->mutable_embedding()->set_pooling(ToWire(model.embedding.pooling));
  wire->mutable_embedding()->set_normalize(model.embedding.normalize);
  for (const auto& [name, text] : model.embedding.prompts) wire->mutable_embedding()->add_prompt_names(name);
  wire->mutable_embedding()->set_default_prompt_name(model.embedding.default_prompt);
  wire->mutable_embedding()->set_reranks(CheckReranks(model).ok());
}

void DescribeProfile(const engine::ProfileSupport& row, int32_t num_ranks, v1::Profile* wire) {
  *wire->mutable_execution() = ToWire(row.profile);
  wire->mutable_execution()->set_ranks(num_ranks);
  wire->set_supported(row.supported);
  wire->mutable_reasons()->Assign(row.reasons.begin(), row.reasons.end());
}

// reactor: the context's own, which it gives once.
void Finish(grpc::ServerUnaryReactor* reactor, grpc::CallbackServerContext* context, const absl::Status& status) {
  const grpc::Status end = ToGrpcStatus(status);
  EchoRequestId(end, context);
  reactor->Finish(end);
}

grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  Finish(reactor, context, status);
  return reactor;
}

struct ChangeCall {
  const ServingCore* core;
  grpc::CallbackServerContext* context;
  const char* method;
  ModelChange change;
};

// Ends when the change is done, also for a client that has gone meanwhile.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* Change(const ChangeCall& call, const grpc::ByteBuffer& request, grpc::ByteBuffer* response) {
  const absl::StatusOr<Principal> caller = CallerOf(*call.core, call.method, *call.context);
  if (!caller.ok()) return Finished(call.context, caller.status());
  Request message;
  if (absl::Status s = ParseWire(request, &message); !s.ok()) return Finished(call.context, s);
  grpc::ServerUnaryReactor* reactor = call.context->DefaultReactor();
  ChangeModel(*call.core, *caller, message.name(), call.change,
              [call, reactor, caller = *caller, name = message.name(), response](const absl::Status& status) {
                const absl::StatusOr<ModelStatus> changed = ModelStatusFor(*call.core, caller, name);
                Response wire;
                if (changed.ok()) DescribeStatus(*changed, wire.mutable_status());
                if (status.ok()) *response = SerializeWire(wire);
                Finish(reactor, call.context, status);
              });
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* ModelService::ListModels(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  const absl::StatusOr<Principal> caller = CallerOf(*core_, "/dunlin.v1.ModelService/ListModels", *context);
  if (!caller.ok()) return Finished(context, caller.status());
  v1::ListModelsRequest message;
  if (absl::Status s = ParseWire(*request, &message); !s.ok()) return Finished(context, s);
  v1::ListModelsResponse wire;
  std::vector<ModelStatus> statuses = ModelStatusesFor(*core_, *caller);
  for (const ModelLease& model : ModelsFor(*core_, *caller)) {
    DescribeModel(*model, wire.add_models());
    const auto of_model = [&model](const ModelStatus& status) { return status.name == model->name; };
    if (const auto status = std::find_if(statuses.begin(), statuses.end(), of_model); status != statuses.end()) {
      DescribeStatus(*status, wire.mutable_models()->rbegin()->mutable_status());
      DescribeAdapters(*status, &*wire.mutable_models()->rbegin());
      statuses.erase(status);
    }
    if (!core_->profile_aliases()) continue;
    const v1::Model described = *wire.models().rbegin();
    for (std::string& alias : ProfileAliases(*model, model->name)) {
      *wire.add_models() = described;
      wire.mutable_models()->rbegin()->set_name(std::move(alias));
    }
  }
  for (const ModelStatus& status : statuses) DescribeUnserved(status, wire.add_models());
  *response = SerializeWire(wire);
  return Finished(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* ModelService::GetModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  const absl::StatusOr<Principal> caller = CallerOf(*core_, "/dunlin.v1.ModelService/GetModel", *context);
  if (!caller.ok()) return Finished(context, caller.status());
  v1::GetModelRequest message;
  if (absl::Status s = ParseWire(*request, &message); !s.ok()) return Finished(context, s);
  const absl::StatusOr<NamedModel> lease = FindFor(*core_, *caller, message.name());
  if (!lease.ok() && core_->refusal() == AdmissionRefusal::kLoading) {
    return Finished(context, core_->StatusOf(AdmissionRefusal::kLoading));
  }
  const std::string name = lease.ok() ? lease->model->name : message.name();
  const absl::StatusOr<ModelStatus> status = ModelStatusFor(*core_, *caller, name);
  v1::GetModelResponse wire;
  if (status.ok()) {
    DescribeStatus(*status, wire.mutable_model()->mutable_status());
    if (lease.ok()) DescribeAdapters(*status, wire.mutable_model());
  }
  if (!lease.ok()) {
    if (!status.ok()) return Finished(context, lease.status());
    DescribeUnserved(*status, wire.mutable_model());
    *response = SerializeWire(wire);
    return Finished(context, absl::OkStatus());
  }
  const ModelLease& model = lease->model;
  DescribeModel(*model, wire.mutable_model());
  if (lease->adapter.id != 0) {
    wire.mutable_model()->set_name(lease->name);
    wire.mutable_model()->clear_adapters();
    const absl::StatusOr<AdapterOfModel> adapter = AdapterFor(*core_, *caller, lease->name);
    if (adapter.ok()) DescribeAdapter(*adapter, wire.mutable_model()->add_adapters());
  }
  const int32_t num_ranks = model->model->num_ranks();
  for (const engine::ProfileSupport& row : model->profiles->rows()) {
    DescribeProfile(row, num_ranks, wire.add_profiles());
  }
  *response = SerializeWire(wire);
  return Finished(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* ModelService::LoadModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Change<v1::LoadModelRequest, v1::LoadModelResponse>(
      {core_, context, "/dunlin.v1.ModelService/LoadModel", &ModelLifecycle::Load}, *request, response);
}

grpc::ServerUnaryReactor* ModelService::UnloadModel(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Change<v1::UnloadModelRequest, v1::UnloadModelResponse>(
      {core_, context, "/dunlin.v1.ModelService/UnloadModel", &ModelLifecycle::Unload}, *request, response);
}

grpc::ServerUnaryReactor* ModelService::ReloadModel(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Change<v1::ReloadModelRequest, v1::ReloadModelResponse>(
      {core_, context, "/dunlin.v1.ModelService/ReloadModel", &ModelLifecycle::Reload}, *request, response);
}

grpc::ServerUnaryReactor* ModelService::LoadAdapter(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  const absl::StatusOr<Principal> caller = CallerOf(*core_, "/dunlin.v1.ModelService/LoadAdapter", *context);
  if (!caller.ok()) return Finished(context, caller.status());
  v1::LoadAdapterRequest message;
  if (absl::Status s = ParseWire(*request, &message); !s.ok()) return Finished(context, s);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const AdapterLoad load{message.name(), message.path(), message.model(), message.in_place()};
  server::LoadAdapter(
      *core_, *caller, load,
      [core = core_, context, reactor, caller = *caller, name = load.name, response](const absl::Status& status) {
        const absl::StatusOr<AdapterOfModel> loaded = AdapterFor(*core, caller, name);
        v1::LoadAdapterResponse wire;
        if (loaded.ok()) DescribeAdapter(*loaded, wire.mutable_adapter());
        if (status.ok()) *response = SerializeWire(wire);
        Finish(reactor, context, status);
      });
  return reactor;
}

grpc::ServerUnaryReactor* ModelService::UnloadAdapter(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  const absl::StatusOr<Principal> caller = CallerOf(*core_, "/dunlin.v1.ModelService/UnloadAdapter", *context);
  if (!caller.ok()) return Finished(context, caller.status());
  v1::UnloadAdapterRequest message;
  if (absl::Status s = ParseWire(*request, &message); !s.ok()) return Finished(context, s);
  *response = SerializeWire(v1::UnloadAdapterResponse());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  ChangeAdapter(*core_, *caller, message.name(), &ModelLifecycle::UnloadAdapter,
                [context, reactor](const absl::Status& status) { Finish(reactor, context, status); });
  return reactor;
}

}  // namespace dunlin::server
