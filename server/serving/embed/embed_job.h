// SPDX-License-Identifier: Apache-2.0
// One embedding or rerank call, from its admission to its terminal status, independent of the protocol.
//
//   Start             on the transport's thread: schedules
//   text pool         Plan: read the request, resolve the model, check, tokenise, resolve the profile; Submit
//   engine thread     OnFinish: takes the call back with its vectors, schedules
//   text pool         Finish: with the result or an error status
//   transport thread  Cancel: cancels in the engine immediately, schedules
//
// A cancel or a deadline ends the call with that status as soon as the text pool sees it.
// Ownership: shared. The front end holds it until its call is over, the pool while it is scheduled, the engine until
// OnFinish. The last of them returns the admission ticket; the model's lease is returned once the engine is done.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/encoder/encode_call.h"
#include "engine/encoder/encoder_engine.h"
#include "server/access/admission.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/core/text_pool.h"
#include "server/serving/output/response_writer.h"
#include "server/serving/record/client_request.h"
#include "server/serving/record/request_record.h"
#include "server/serving/resolve/model_use.h"

namespace dunlin::server {

class EmbedJob final : public TextTask, public engine::EncodeSink {
 public:
  // core outlives the job, which holds the writer until its Finish. REQUIRES: owned by a shared_ptr.
  EmbedJob(ServingCore* core, Admission::Ticket ticket, const ClientCall& call, std::shared_ptr<EmbedWriter> writer);

  // Once.
  void Start() { core_->text_pool()->Schedule(this); }
  // Called by the writer when the client no longer wants the response. Any thread, also after Finish.
  void Cancel();

 private:
  enum class Phase : uint8_t { kArrived, kRead, kRunning, kEnded };

  void OnFinish(std::unique_ptr<engine::EncodeCall> call) override;

  void Run() override;
  absl::Status Read();
  // False: the model is being loaded, and the job runs again once it is, or when it is cancelled.
  absl::StatusOr<bool> AwaitModel();
  absl::Status CheckLoaded();
  absl::Status PlanAndSubmit();
  void Continue();
  void Respond();
  // The terminal status of a call that fails.
  void End(const absl::Status& status);
  void FinishWriter(const absl::Status& status, const EmbedResult* result);
  // Notifies the observer and returns the lease, once the status is known and the engine is done.
  void Report();

  ServingCore* const core_;
  const ClientCall call_;

  // Any thread.
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> engine_done_{false};  // finished_ is set
  absl::Mutex submit_mutex_;              // guards engine_, so that a cancel during Submit reaches the engine
  engine::EncoderEngine* engine_ ABSL_GUARDED_BY(submit_mutex_) = nullptr;  // while the job holds the model
  engine::RequestId engine_id_ ABSL_GUARDED_BY(submit_mutex_) = 0;

  // The thread that runs the task.
  Phase phase_ = Phase::kArrived;
  std::shared_ptr<EmbedWriter> writer_;        // null after its Finish
  std::optional<ClientEmbedRequest> request_;  // while kRead
  std::unique_ptr<ModelUse> model_use_;        // from kRead until reported, where requests load models
  ModelLease model_;                           // from Submit until reported
  std::vector<bool> truncated_;
  std::optional<RerankScores> rerank_;
  std::unique_ptr<engine::EncodeCall> finished_;  // written by the engine thread, read after engine_done_
  bool submitted_ = false;
  bool reported_ = false;
  RequestRecord record_;
  Admission::Ticket ticket_;
};

}  // namespace dunlin::server
