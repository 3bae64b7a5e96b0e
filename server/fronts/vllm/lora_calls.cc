// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/vllm/lora_calls.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/fronts/vllm/control_service.h"
#include "server/fronts/vllm/server_info.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/adapter_changes.h"
#include "server/serving/resolve/profile_alias.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {
namespace {

constexpr char kLoraName[] = "lora_name";

// Control speaks of one model; the first that takes adapters gets them. "": none does.
std::string ModelThatTakesAdapters(const VllmControlCall& call) {
  for (const ModelLease& model : GeneratingModels(*call.service->core(), call.caller)) {
    if (model->adapters != nullptr) return model->name;
  }
  return "";
}

void Describe(const AdapterOfModel& row, ::vllm::LoraAdapter* wire) {
  wire->set_lora_id(static_cast<int64_t>(row.adapter.id));
  wire->set_lora_name(row.adapter.name);
  wire->set_source_path(row.adapter.path);
}

}  // namespace

absl::Status NameAdapter(const ServingCore& core, const Principal& caller, std::string_view lora_name,
                         std::string* model) {
  const bool loaded = FindNamed(core, lora_name).adapter.id != 0;
  const KnownModel known = FindKnown(core, lora_name);
  if ((!loaded && known.model == known.name) || !caller.MayUse(lora_name)) {
    return InvalidField(kLoraName, UnknownName(lora_name, "name"), "an adapter of ListLoras");
  }
  std::string profile;
  if (!model->empty()) {
    const std::string base = loaded ? FindNamed(core, lora_name).model->name : known.model;
    if (!model->starts_with(base) || (model->size() > base.size() && (*model)[base.size()] != '@')) {
      return InvalidField(kLoraName, "is an adapter of another model", absl::StrCat("one of ", *model));
    }
    profile = model->substr(base.size());
  }
  *model = absl::StrCat(engine::AbslView(lora_name), profile);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* StartLoadLora(const VllmControlCall& call, const grpc::ByteBuffer& message,
                                        grpc::ByteBuffer* response) {
  ::vllm::LoadLoraRequest request;
  if (absl::Status parsed = ParseWire(message, &request); !parsed.ok()) return Finished(call.context, parsed);
  grpc::ServerUnaryReactor* reactor = call.context->DefaultReactor();
  const AdapterLoad load{request.lora_name(), request.source_path(), ModelThatTakesAdapters(call)};
  const ServingCore* core = call.service->core();
  LoadAdapter(*core, call.caller, load,
              [core, context = call.context, caller = call.caller, reactor, name = load.name,
               response](const absl::Status& status) {
                const absl::StatusOr<AdapterOfModel> loaded = AdapterFor(*core, caller, name);
                ::vllm::LoadLoraResponse wire;
                if (loaded.ok()) Describe(*loaded, wire.mutable_adapter());
                if (status.ok()) *response = SerializeWire(wire);
                FinishCall(reactor, context, status);
              });
  return reactor;
}

grpc::ServerUnaryReactor* StartUnloadLora(const VllmControlCall& call, const grpc::ByteBuffer& message,
                                          grpc::ByteBuffer* response) {
  ::vllm::UnloadLoraRequest request;
  absl::Status status = ParseWire(message, &request);
  if (status.ok() && request.lora_name().empty()) {
    status = InvalidField(kLoraName, "is empty", "the name of an adapter");
  }
  if (!status.ok()) return Finished(call.context, status);
  const absl::StatusOr<AdapterOfModel> unloaded = AdapterFor(*call.service->core(), call.caller, request.lora_name());
  if (!unloaded.ok()) return Finished(call.context, unloaded.status());
  ::vllm::UnloadLoraResponse wire;
  Describe(*unloaded, wire.mutable_adapter());
  *response = SerializeWire(wire);
  grpc::ServerUnaryReactor* reactor = call.context->DefaultReactor();
  ChangeAdapter(*call.service->core(), call.caller, request.lora_name(), &ModelLifecycle::UnloadAdapter,
                [reactor, context = call.context](const absl::Status& done) { FinishCall(reactor, context, done); });
  return reactor;
}

absl::Status ListLoras(const VllmControlCall& call, const ::vllm::ListLorasRequest& /*request*/,
                       ::vllm::ListLorasResponse* wire) {
  for (const AdapterOfModel& row : AdaptersFor(*call.service->core(), call.caller)) {
    if (row.adapter.loaded) Describe(row, wire->add_adapters());
  }
  return absl::OkStatus();
}

}  // namespace dunlin::server
