// SPDX-License-Identifier: Apache-2.0
#include "tests/server/serving/fake_front.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/time/clock.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

}  // namespace

void FakeGenerateCall::Start(ServingCore* core, const std::shared_ptr<FakeGenerateCall>& call, engine::TimeNs deadline,
                             size_t message_bytes) {
  const engine::TimeNs now = core->now();
  std::variant<Admission::Ticket, AdmissionRefusal> answer = core->TryAdmit(engine::kSharedTenant, message_bytes);
  if (const auto* refusal = std::get_if<AdmissionRefusal>(&answer)) {
    core->ReportRefused(*refusal, now);
    absl::MutexLock lock(&call->mutex_);
    call->response_.status = core->StatusOf(*refusal);
    call->response_.finished = true;
    return;
  }
  const ClientCall client = {{}, now, deadline, message_bytes};
  call->generation_ = std::make_shared<Generation>(core, std::get<Admission::Ticket>(std::move(answer)), client, call);
  call->generation_->Start();
}

void FakeGenerateCall::TakeWrite() {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
  }
  generation_->OnWriteDone(true);
}

FakeResponse FakeGenerateCall::WaitUntilFinished() const {
  absl::MutexLock lock(&mutex_);
  EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&response_.finished), kPatience));
  return response_;
}

size_t FakeGenerateCall::num_chunks() const {
  absl::MutexLock lock(&mutex_);
  return response_.chunks.size();
}

bool FakeGenerateCall::cut_off() const {
  absl::MutexLock lock(&mutex_);
  return response_.cut_off;
}

absl::Status FakeGenerateCall::ReadRequest(ClientRequest* request) {
  *request = request_;
  return absl::OkStatus();
}

void FakeGenerateCall::Write(const OutputChunk& chunk) {
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(response_.finished) << "nothing comes after Finish";
    EXPECT_FALSE(writing_) << "one write at a time";
    writing_ = held_;
    Take(chunk);
  }
  if (!held_) generation_->OnWriteDone(true);
}

void FakeGenerateCall::Finish(const ResponseEnd& end, const OutputChunk* last) {
  std::shared_ptr<Generation> generation;
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(response_.finished) << "once";
    if (last != nullptr) {
      EXPECT_TRUE(end.status.ok());
      Take(*last);
    }
    response_.status = end.status;
    response_.request_id = end.request_id;
    response_.finished = true;
    response_.finished_by = std::this_thread::get_id();
    if (!held_) generation = std::move(generation_);
  }
  if (generation != nullptr) generation->OnClosed();
}

void FakeGenerateCall::CutOff() {
  absl::MutexLock lock(&mutex_);
  response_.cut_off = true;
}

void FakeGenerateCall::Take(const OutputChunk& chunk) {
  response_.chunks.push_back(chunk);
  FakeOutput& output = response_.outputs[chunk.index];
  output.text += chunk.text;
  output.reasoning += chunk.reasoning;
  for (const ToolCallDelta& delta : chunk.tool_calls) {
    const auto index = static_cast<size_t>(delta.tool_index);
    EXPECT_LE(index, output.calls.size()) << "one call after another";
    if (index == output.calls.size()) {
      output.calls.push_back(delta);
      continue;
    }
    EXPECT_EQ(delta.id + delta.name, "") << "in the first delta only";
    output.calls.at(index).arguments += delta.arguments;
  }
  output.token_ids.insert(output.token_ids.end(), chunk.token_ids.begin(), chunk.token_ids.end());
  if (!chunk.finish.has_value()) return;
  ++output.num_finishes;
  output.finish = *chunk.finish;
}

ClientRequest ClientTextRequest(const std::string& text, int32_t max_tokens) {
  ClientRequest request;
  request.field_names = &kFakeFieldNames;
  request.model = "tiny";
  request.prompt = text;
  request.stopping.max_tokens = max_tokens;
  return request;
}

Harness::Harness(const Limits& limits, const engine::EngineOptions& engine, const ServingOptions& options,
                 int32_t num_pages)
    : models(engine, num_pages), core(limits, models.repository(), &observer, options) {
  core.Open();
}

Harness::~Harness() {
  models.control().held = false;
  core.StartDraining(AdmissionRefusal::kDraining);
  EXPECT_TRUE(core.WaitUntilIdle(absl::Now() + absl::Seconds(20)));
  models.repository().StopEngines();
}

std::shared_ptr<FakeGenerateCall> Harness::Start(const ClientRequest& request, engine::TimeNs deadline) {
  const auto call = std::make_shared<FakeGenerateCall>(request);
  FakeGenerateCall::Start(&core, call, deadline);
  return call;
}

FakeResponse Harness::Generate(const ClientRequest& request, engine::TimeNs deadline) {
  return Start(request, deadline)->WaitUntilFinished();
}

bool Harness::EngineIdle() {
  return Eventually([this] { return stats().idle && stats().pages_used == 0; });
}

void FakeEmbedCall::Start(ServingCore* core, const std::shared_ptr<FakeEmbedCall>& call, engine::TimeNs deadline) {
  std::variant<Admission::Ticket, AdmissionRefusal> answer = core->TryAdmit(engine::kSharedTenant, 100);
  ASSERT_TRUE(std::holds_alternative<Admission::Ticket>(answer));
  const ClientCall client = {{}, core->now(), deadline, 100};
  call->job_ = std::make_shared<EmbedJob>(core, std::get<Admission::Ticket>(std::move(answer)), client, call);
  call->job_->Start();
}

absl::Status FakeEmbedCall::WaitUntilFinished() const {
  absl::MutexLock lock(&mutex_);
  EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&finished_), kPatience));
  return status_;
}

std::vector<std::vector<float>> FakeEmbedCall::vectors() const {
  absl::MutexLock lock(&mutex_);
  return vectors_;
}

Usage FakeEmbedCall::usage() const {
  absl::MutexLock lock(&mutex_);
  return usage_;
}

absl::Status FakeEmbedCall::ReadRequest(ClientEmbedRequest* request) {
  *request = request_;
  return absl::OkStatus();
}

void FakeEmbedCall::Finish(const ResponseEnd& end, const EmbedResult* result) {
  absl::MutexLock lock(&mutex_);
  EXPECT_FALSE(finished_) << "once";
  finished_ = true;
  status_ = end.status;
  if (result == nullptr) return;
  const engine::EncodeRequest& request = result->call.request;
  const float* vector = result->call.vectors.data();
  for (size_t i = 0; i < request.lengths.size(); ++i, vector += request.dimensions) {
    vectors_.emplace_back(vector, vector + request.dimensions);
  }
  usage_ = result->usage;
}

}  // namespace dunlin::server
