// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/vllm/server_info.h"

#include <algorithm>

#include "server/serving/record/errors.h"
#include "server/serving/resolve/key_limits.h"

namespace dunlin::server {
namespace {

constexpr char kApiVersion[] = "vllm";  // clients refuse another one
constexpr char kModelHasNoDirectory[] = "random";
constexpr uint32_t kEventSchemaVersion = 1;  // structures as arrays

}  // namespace

std::vector<ModelLease> GeneratingModels(const ServingCore& core, const Principal& caller) {
  std::vector<ModelLease> models = ModelsFor(core, caller);
  std::erase_if(models, [](const ModelLease& model) { return model->engine == nullptr; });
  return models;
}

absl::StatusOr<ModelLease> ControlledModel(const ServingCore& core, const Principal& caller) {
  const std::vector<ModelLease> models = GeneratingModels(core, caller);
  if (!models.empty()) return models.front();
  if (core.refusal() == AdmissionRefusal::kLoading) return core.StatusOf(AdmissionRefusal::kLoading);
  return MakeError(Reason::kWrongModelKind, "no model that is served generates text");
}

void DescribeServer(const ServedModel& model, const std::string& version, const std::string& instance_id,
                    ::vllm::ServerInfo* wire) {
  const engine::RequestLimits& limits = model.engine->limits();
  const engine::Precision precision = model.profiles->default_precision();
  wire->set_engine_version(version);
  wire->set_api_version(kApiVersion);
  wire->set_instance_id(instance_id);
  wire->set_max_model_len(static_cast<uint32_t>(limits.max_context_tokens));
  wire->set_kv_block_size(static_cast<uint32_t>(limits.tokens_per_page[static_cast<size_t>(precision)]));
  wire->set_total_kv_blocks(static_cast<uint64_t>(engine::KvBlocks(limits, precision)));
  wire->set_max_running_requests(static_cast<uint64_t>(model.engine_options.max_sequences));
  wire->set_max_batched_tokens(static_cast<uint64_t>(model.engine_options.max_tokens_per_step));
  if (model.adapters != nullptr) wire->set_max_loras(static_cast<uint32_t>(model.adapters->limits().max_adapters));
  ::vllm::ParallelismInfo* parallelism = wire->mutable_parallelism();  // of the one process
  const auto num_ranks = static_cast<uint32_t>(model.model->num_ranks());
  parallelism->set_tensor_parallel_size(num_ranks);
  parallelism->set_pipeline_parallel_size(1);
  parallelism->set_data_parallel_size(1);
  parallelism->set_decode_context_parallel_size(1);
  parallelism->set_world_size(num_ranks);
  parallelism->set_data_parallel_size_local(1);
  wire->mutable_rl_capabilities();  // no updates of weights, so that clients ask for pauses and sleep alone
}

void DescribeModel(const ServedModel& model, ::vllm::ModelInfo* wire) {
  wire->set_model_id(model.directory.empty() ? kModelHasNoDirectory : model.directory);
  wire->set_served_model_name(model.name);
  wire->set_supports_text_input(model.tokenizer != nullptr);
  wire->set_supports_token_ids_input(true);
  wire->set_supports_lora(model.adapters != nullptr);
  const text::ChatOutputForms& forms = model.chat_forms;
  if (forms.reasoning != nullptr) wire->set_reasoning_parser(forms.reasoning->name);
  if (forms.calls != nullptr) wire->set_tool_call_parser(forms.calls->name);
}

void DescribeKvEventSource(const EventPublisherOptions& source, int32_t batches, ::vllm::KvEventSource* wire) {
  wire->set_transport("zmq");
  wire->set_endpoint(source.endpoint);
  wire->set_topic(source.topic);
  wire->set_replay_endpoint(source.replay_endpoint);
  wire->set_data_parallel_rank(0);
  wire->set_encoding("msgpack");
  wire->set_schema_version(kEventSchemaVersion);
  wire->set_buffer_steps(static_cast<uint32_t>(batches));
  wire->set_hwm(static_cast<uint32_t>(source.hwm));
  wire->set_max_queue_size(static_cast<uint32_t>(source.hwm));
}

}  // namespace dunlin::server
