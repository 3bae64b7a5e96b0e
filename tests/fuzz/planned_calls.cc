// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/planned_calls.h"

#include <nlohmann/json.hpp>

#include "engine/base/string_view.h"
#include "engine/loop/engine.h"
#include "engine/loop/validate.h"
#include "server/serving/embed/embed_plan.h"
#include "server/serving/generation/generation_plan.h"
#include "server/serving/resolve/resolve.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/server/serving/test_models.h"
#include "text/utf8.h"

namespace dunlin::fuzz {
namespace {

struct Served {
  server::TestModels models{engine::EngineOptions()};
  server::ServingCore core{server::Limits(), models.repository(), nullptr, {.text_threads = 1}};
};

Served& TheServed() {
  static Served served;
  return served;
}

// Errors go to clients as they are.
absl::Status Checked(absl::Status status) {
  DUNLIN_FUZZ_CHECK(status.ok() || !status.message().empty(), "an error without a message");
  DUNLIN_FUZZ_CHECK(text::IsValidUtf8(engine::StdView(status.message())), "an error that is no text");
  DUNLIN_FUZZ_CHECK(!absl::IsInternal(status) && !absl::IsUnknown(status), status.ToString());
  return status;
}

}  // namespace

server::ServingCore& Core() {
  return TheServed().core;
}

absl::Status Plan(const absl::Status& read, server::ClientRequest request) {
  if (!read.ok()) return Checked(read);
  server::RequestRecord record;
  if (absl::Status s = server::ResolveRequestId(request.request_id, *request.field_names, &record); !s.ok()) {
    return Checked(std::move(s));
  }
  if (Core().Lease(request.model) == nullptr) request.model = "tiny";
  const auto plan = server::PlanGeneration(std::move(request), Core(), &record);
  if (!plan.ok()) return Checked(plan.status());
  const absl::Status valid = engine::ValidateRequest(plan->request, plan->model->engine->limits());
  DUNLIN_FUZZ_CHECK(valid.ok(), valid.ToString());
  DUNLIN_FUZZ_CHECK(plan->num_outputs >= 1, "a plan without outputs");
  return absl::OkStatus();
}

absl::Status Plan(const absl::Status& read, server::ClientEmbedRequest request) {
  if (!read.ok()) return Checked(read);
  server::RequestRecord record;
  if (absl::Status s = server::ResolveRequestId(request.request_id, *request.field_names, &record); !s.ok()) {
    return Checked(std::move(s));
  }
  if (Core().Lease(request.model) == nullptr) request.model = "encoder";
  const auto plan = server::PlanEmbed(std::move(request), Core(), &record);
  if (!plan.ok()) return Checked(plan.status());
  DUNLIN_FUZZ_CHECK(plan->call != nullptr, "a plan without a call");
  return absl::OkStatus();
}

void CheckErrorBody(const std::string& body) {
  DUNLIN_FUZZ_CHECK(nlohmann::json::accept(body), "an error body that is no JSON");
}

}  // namespace dunlin::fuzz
