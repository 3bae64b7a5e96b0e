#include "server/grpc/generate_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/convert/errors.h"
#include "server/grpc/call_metadata.h"
#include "server/grpc/model_kind.h"
#include "server/grpc/wire_buffer.h"

namespace dunlin::server {
namespace {

constexpr size_t kPromptTail = 16;  // what StreamDecoder::Create needs to continue a text
constexpr size_t kMaxRecordedModelBytes = 64;

absl::Status Tokenise(const engine::Tokenizer& tokenizer, const std::string& text, CheckedRequest* request) {
  absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Encode(text, engine::EncodeOptions{});
  if (!ids.ok()) return InvalidField("text", engine::StdView(ids.status().message()), "");
  request->engine.prompt = *std::move(ids);
  return absl::OkStatus();
}

// REQUIRES: request->engine.prompt stays where it is from now on.
OutputText::Options TextOptions(const ServedModel& model, const CheckedRequest& request) {
  const engine::Request& engine_request = request.engine;
  OutputText::Options options;
  options.tokenizer = request.omit_text ? nullptr : model.tokenizer.get();
  options.prompt_tail = std::span(engine_request.prompt);
  options.prompt_tail = options.prompt_tail.last(std::min(kPromptTail, options.prompt_tail.size()));
  options.stop_strings = request.stop_strings;
  options.include_stop = request.include_stop;
  options.keep_special_tokens = request.keep_special_tokens;
  options.logprobs = engine_request.sampling.logprobs >= 0;
  options.stop_token_ids = engine_request.stopping.stop_token_ids;
  if (!engine_request.stopping.ignore_eos) {
    const std::vector<engine::TokenId>& eos = model.model->config().eos_token_ids;
    options.stop_token_ids.insert(options.stop_token_ids.end(), eos.begin(), eos.end());
  }
  return options;
}

absl::Status FillIn(const v1::GenerateRequest& message, const ModelFacts& facts, const Edge& edge, GeneratePlan* plan,
                    RequestRecord* record) {
  CheckedRequest& request = plan->request;
  if (request.prompt_is_text) {
    if (absl::Status s = Tokenise(*plan->model->tokenizer, message.text(), &request); !s.ok()) return s;
  }
  record->prompt_tokens = static_cast<int32_t>(std::min(request.engine.prompt.size(), engine::kMaxTokenIds));
  if (absl::Status s = FitToContext(facts, edge.limits, &request); !s.ok()) return s;
  record->max_tokens = request.engine.stopping.max_tokens;
  const engine::ProfileTable& profiles = *plan->model->profiles;
  absl::StatusOr<engine::ExecutionProfile> profile = profiles.Resolve(request.choice);
  if (!profile.ok()) return RefuseProfile(profiles, request.choice, profile.status());
  request.engine.profile = *profile;
  record->profile = *profile;
  return FromEngine(plan->model->engine->Validate(request.engine), edge.limits.retry_after_ms);
}

}  // namespace

absl::StatusOr<GeneratePlan> PlanGenerate(const grpc::ByteBuffer& wire, const grpc::CallbackServerContext& context,
                                          const Edge& edge, RequestRecord* record) {
  v1::GenerateRequest message;
  if (absl::Status s = ParseWire(wire, &message); !s.ok()) return s;
  absl::StatusOr<std::string> request_id = ChooseRequestId(context, message.request_id());
  if (!request_id.ok()) return request_id.status();
  record->request_id = *std::move(request_id);
  GeneratePlan plan;
  const absl::StatusOr<const ServedModel*> model = FindModel(message.model(), edge, record);
  if (!model.ok()) return model.status();
  plan.model = *model;
  if (absl::Status s = CheckGenerates(*plan.model); !s.ok()) return s;
  const ModelFacts facts = FactsOf(*plan.model);
  absl::StatusOr<CheckedRequest> request = CheckGenerateRequest(message, facts);
  if (!request.ok()) return request.status();
  plan.request = *std::move(request);
  record->num_outputs = plan.request.num_outputs;
  if (absl::Status s = FillIn(message, facts, edge, &plan, record); !s.ok()) return s;
  plan.output_text = TextOptions(*plan.model, plan.request);
  return plan;
}

absl::StatusOr<const ServedModel*> FindModel(const std::string& name, const Edge& edge, RequestRecord* record) {
  record->model = name.substr(0, kMaxRecordedModelBytes);
  if (name.empty()) return InvalidField("model", "is empty", "the name of a served model");
  const ServedModel* model = edge.registry->Find(name);
  if (model == nullptr) return UnknownModel(name);
  return model;
}

ModelFacts FactsOf(const ServedModel& model) {
  return {.vocab_size = model.model->config().vocab_size,
          .max_context_tokens = model.engine->max_context_tokens(),
          .has_tokenizer = model.tokenizer != nullptr,
          .sampling_defaults = model.sampling_defaults};
}

absl::Status RefuseProfile(const engine::ProfileTable& table, const engine::ExecutionChoice& choice,
                           const absl::Status& refusal) {
  const engine::Precision precision = choice.precision.value_or(table.default_precision());
  const bool other_device = choice.device.has_value() && *choice.device != table.rows().front().profile.device;
  std::vector<std::string> reasons;
  for (const engine::ProfileSupport& row : table.rows()) {
    const bool asked = !choice.attention_backend.has_value() || choice.allow_fallback ||
                       *choice.attention_backend == row.profile.attention_backend;
    if (other_device || !asked || row.profile.precision != precision) continue;
    for (const std::string& reason : row.reasons) {
      const std::string sentence = absl::StrCat(kernels::Name(row.profile.attention_backend), ": ", reason);
      if (std::find(reasons.begin(), reasons.end(), sentence) == reasons.end()) reasons.push_back(sentence);
    }
  }
  const std::string_view message = engine::StdView(refusal.message());
  if (reasons.empty()) reasons.emplace_back(message);  // the device itself
  return ProfileRefused(message, reasons);
}

}  // namespace dunlin::server
