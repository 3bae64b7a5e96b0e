// SPDX-License-Identifier: Apache-2.0
// An in-process front end: called on the test's thread, stores responses in plain members. It depends only on the
// serving core and has its own field names. A test may leave writes outstanding, like a slow client.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/embed/embed_job.h"
#include "server/serving/generation/generation.h"
#include "server/serving/output/response_writer.h"
#include "server/serving/record/client_field.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {

inline constexpr FieldNames kFakeFieldNames({
    {ClientField::kPromptText, "prompt_text"},
    {engine::RequestField::kTopP, "nucleus"},
    {ClientField::kStopString, "stop_words.*"},
    {engine::RequestField::kInputToken, "batch.*.*"},
});

struct FakeOutput {
  std::string text;
  std::string reasoning;
  std::vector<ToolCallDelta> calls;  // the deltas of each joined
  std::vector<engine::TokenId> token_ids;
  int num_finishes = 0;
  OutputFinish finish;
};

// What a generation has produced so far.
struct FakeResponse {
  std::map<int, FakeOutput> outputs;
  std::vector<OutputChunk> chunks;
  absl::Status status;
  std::string request_id;
  bool finished = false;
  bool cut_off = false;
  std::thread::id finished_by;
};

class FakeGenerateCall final : public ResponseWriter {
 public:
  explicit FakeGenerateCall(ClientRequest request) : request_(std::move(request)) {}

  // Writes stay outstanding until TakeWrite, and the end until Close.
  void HoldWrites() { held_ = true; }

  // Starts a generation, or ends with the refusal. The call and the core must outlive what the engine does for it.
  static void Start(ServingCore* core, const std::shared_ptr<FakeGenerateCall>& call,
                    engine::TimeNs deadline = engine::kNoDeadline, size_t message_bytes = 100);

  void Cancel() { generation_->Cancel(); }
  void TakeWrite();
  void Close() { std::exchange(generation_, nullptr)->OnClosed(); }

  FakeResponse WaitUntilFinished() const;
  size_t num_chunks() const;
  bool cut_off() const;

 private:
  absl::Status ReadRequest(ClientRequest* request) override;
  void Write(const OutputChunk& chunk) override;
  void Finish(const ResponseEnd& end, const OutputChunk* last) override;
  void CutOff() override;
  void Take(const OutputChunk& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ClientRequest request_;
  bool held_ = false;  // const after Start
  std::shared_ptr<Generation> generation_;
  mutable absl::Mutex mutex_;  // guards what follows, between the core's threads and the test's
  FakeResponse response_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
};

class FakeEmbedCall final : public EmbedWriter {
 public:
  explicit FakeEmbedCall(ClientEmbedRequest request) : request_(std::move(request)) {}
  static void Start(ServingCore* core, const std::shared_ptr<FakeEmbedCall>& call,
                    engine::TimeNs deadline = engine::kNoDeadline);
  void Cancel() { job_->Cancel(); }
  absl::Status WaitUntilFinished() const;
  // [inputs][dimensions]. REQUIRES: finished with OK.
  std::vector<std::vector<float>> vectors() const;
  Usage usage() const;

 private:
  absl::Status ReadRequest(ClientEmbedRequest* request) override;
  void Finish(const ResponseEnd& end, const EmbedResult* result) override;

  const ClientEmbedRequest request_;
  std::shared_ptr<EmbedJob> job_;
  mutable absl::Mutex mutex_;  // guards what follows
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<float>> vectors_ ABSL_GUARDED_BY(mutex_);
  Usage usage_ ABSL_GUARDED_BY(mutex_);
};

// To the model "tiny", by the names of kFakeFieldNames.
ClientRequest ClientTextRequest(const std::string& text, int32_t max_tokens);

// A serving core over the test models, open from its construction on; drained at its end.
struct Harness {
  explicit Harness(const Limits& limits = {}, const engine::EngineOptions& engine = {},
                   const ServingOptions& options = {}, int32_t num_pages = TestModels::kNumPages);
  ~Harness();
  // Starts a generation.
  std::shared_ptr<FakeGenerateCall> Start(const ClientRequest& request, engine::TimeNs deadline = engine::kNoDeadline);
  // The same, to its end.
  FakeResponse Generate(const ClientRequest& request, engine::TimeNs deadline = engine::kNoDeadline);
  // Of the model "tiny".
  engine::EngineStats stats() const { return models.model("tiny").engine->stats(); }
  // Waits until it has no sequence and no page.
  bool EngineIdle();

  RecordingObserver observer;
  TestModels models;
  ServingCore core;
};

}  // namespace dunlin::server
