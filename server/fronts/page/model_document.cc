// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/page/model_document.h"

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/serving/chat/chat_prompt.h"

namespace dunlin::server::page {
namespace {

using Json = nlohmann::ordered_json;

Json ProfileJson(const engine::ExecutionProfile& profile) {
  return {{"device", Name(profile.device)},
          {"attention_backend", Name(profile.attention_backend)},
          {"precision", Name(profile.precision)},
          {"kv_dtype", Name(profile.kv_dtype())}};
}

// Form: of text::ChatOutputForms.
template <class Form>
const char* NameOfForm(const Form* form) {
  return form == nullptr ? "none" : form->name;
}

Json ChatJson(const ServedModel& model) {
  const absl::Status supported = CheckChats(model);
  if (!supported.ok()) return {{"supported", false}, {"reason", std::string(supported.message())}};
  return {{"supported", true},
          {"tool_parser", NameOfForm(model.chat_forms.calls)},
          {"reasoning_parser", NameOfForm(model.chat_forms.reasoning)}};
}

// Of those that the caller may use.
Json AdaptersJson(const ServedModel& model, const Principal& caller) {
  Json adapters = Json::array();
  for (const AdapterStatus& adapter : LoadedAdapters(model)) {
    if (!caller.MayUse(adapter.name)) continue;
    adapters.push_back({{"name", adapter.name}, {"rank", adapter.rank}, {"bytes", adapter.bytes}});
  }
  return adapters;
}

Json ModelJson(const ServedModel& model, const Principal& caller) {
  const engine::ModelConfig& config = model.model->config();
  Json document = {{"name", model.name},
                   {"kind", config.is_encoder() ? "encoder" : "decoder"},
                   {"architecture", config.architecture},
                   {"parameters", model.model->num_parameters()},
                   {"max_context_tokens", model.any_engine()->max_context_tokens()},
                   {"vocab_size", config.vocab_size},
                   {"loaded", absl::ToUnixSeconds(model.loaded)},
                   {"precisions", Json::array()}};
  for (const engine::Precision precision : model.model->precisions()) document["precisions"].push_back(Name(precision));
  if (!config.is_encoder()) document["chat"] = ChatJson(model);
  if (model.adapters != nullptr) document["adapters"] = AdaptersJson(model, caller);
  const absl::StatusOr<engine::ExecutionProfile> chosen = model.profiles->Resolve({});
  document["default_profile"] = chosen.ok() ? ProfileJson(*chosen) : Json();
  Json& profiles = document["profiles"] = Json::array();
  for (const engine::ProfileSupport& row : model.profiles->rows()) {
    Json& profile = profiles.emplace_back(ProfileJson(row.profile));
    profile["supported"] = row.supported;
    profile["reasons"] = row.reasons;
  }
  return document;
}

}  // namespace

std::string ModelsDocument(const ServerFacts& server, std::span<const ModelLease> models, const Principal& caller) {
  Json document = {{"version", server.version}, {"cpu_variant", server.cpu_variant}, {"models", Json::array()}};
  for (const ModelLease& model : models) document["models"].push_back(ModelJson(*model, caller));
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dunlin::server::page
