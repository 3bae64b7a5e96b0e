// SPDX-License-Identifier: Apache-2.0
// One generation, from an admitted call to its terminal status, independent of the protocol.
//
//   Start             on the transport's thread: plans a small message inline, leaves a larger one to the text pool
//   text pool         Plan: read the request, resolve the model, check, tokenise, resolve the profile
//                     SettleImages: a chat's images leave the pool while the model's encoder makes rows of them
//                     SettleConstraint: structured output leaves the pool until its grammar is compiled
//                     Submit: n requests to the engine
//                     Continue: whenever no write is outstanding, one chunk of the pending tokens of the next output.
//                     The first chunk carries the profile; it is sent immediately, or with the first token if the
//                     engine was idle. The last chunk is sent with the status.
//   engine thread     OutputQueue: into the ring, schedule; the last chunk of the engine's only request
//   transport thread  OnWriteDone, Cancel: schedule; Cancel also cancels in the engine immediately
//
// A failure of any output, a cancel or a deadline ends the call with that status and drops the tokens not yet sent.
// Ownership: shared. The front end holds it until OnClosed, the pool while it is scheduled, the engine (as the outputs'
// sink) for any length of time, but without calls after OnFinish. When all three are done with it, the generation
// returns its admission ticket and its lease of the model, on the text pool.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/request/types.h"
#include "server/access/admission.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/core/stall_watch.h"
#include "server/serving/core/text_pool.h"
#include "server/serving/generation/generation_outputs.h"
#include "server/serving/generation/generation_plan.h"
#include "server/serving/generation/pending_constraint.h"
#include "server/serving/images/pending_images.h"
#include "server/serving/output/output_chunk.h"
#include "server/serving/output/response_writer.h"
#include "server/serving/output/submitted_requests.h"
#include "server/serving/record/client_request.h"
#include "server/serving/record/request_record.h"
#include "server/serving/resolve/model_use.h"

namespace dunlin::server {

class Generation final : public TextTask, public StallWatch::Call {
 public:
  // core outlives the generation, which holds the writer until OnClosed. REQUIRES: owned by a shared_ptr.
  Generation(ServingCore* core, Admission::Ticket ticket, const ClientCall& call,
             std::shared_ptr<ResponseWriter> writer);

  // Once. The writer may be called before this returns.
  void Start();
  // As Start, but never plans inline: for one of many that start together.
  void StartOnPool() { core_->text_pool()->Schedule(this); }

  // Called by the writer, on any thread but an engine's.
  // The outstanding write is done and the writer can take the next; ok is false if the client is gone.
  void OnWriteDone(bool ok);
  // The client no longer wants the response, or its deadline has passed on the transport's clock.
  void Cancel();
  // The last call, after Finish: the transport is done with the call.
  void OnClosed();

 private:
  enum class Phase : uint8_t { kArrived, kRead, kPlanned, kStreaming, kEnded };

  void Run() override;
  // Everything but Report, which may block on writing the log.
  void RunInline() override;
  void Advance(bool inline_run);
  absl::Status Read();
  // False: the model is being loaded, and the generation runs again once it is, or when it is cancelled.
  absl::StatusOr<bool> AwaitModel();
  absl::Status CheckLoaded();
  // Of a request that wants its model out of memory.
  absl::Status Free();
  absl::Status Plan();
  // False: the images are not encoded yet, and the generation runs again once something has changed.
  absl::StatusOr<bool> SettleImages();
  absl::Status StartImages();
  // Of the caller's key, before anything is computed.
  absl::Status ReserveQuota();
  // The status of a generation that need not go on.
  absl::Status CheckStillWanted() const;
  // False: the grammar is being compiled, and the generation runs again once it is, or when it is cancelled.
  absl::StatusOr<bool> SettleConstraint();
  absl::Status StartConstraint();
  void Resume() { core_->text_pool()->Schedule(this); }
  absl::Status Submit();
  void Continue();
  // The terminal status of a call that fails.
  void End(const absl::Status& status);
  // Notifies the observer once the status is known and the engine is done; returns ticket and lease once the transport
  // is done too.
  void Report();
  absl::Status CancelledStatus() const;

  // REQUIRES: comes before the writer's first Write or Finish.
  void WatchForStall();
  engine::TimeNs unread_since() const override;
  void CutOff() override;

  ServingCore* const core_;
  const ClientCall call_;

  // Any thread.
  SubmittedRequests requests_;
  std::atomic<bool> write_pending_{false};
  std::atomic<engine::TimeNs> writing_since_{0};  // 0: no write is outstanding
  std::atomic<engine::TimeNs> ended_at_{0};       // 0: Finish was not called
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> cut_off_{false};
  std::atomic<bool> closed_{false};
  absl::Mutex cut_off_mutex_;  // guards cut_off_writer_, between CutOff and OnClosed
  std::shared_ptr<ResponseWriter> cut_off_writer_ ABSL_GUARDED_BY(cut_off_mutex_);  // null after OnClosed

  // The thread that runs the task.
  Phase phase_ = Phase::kArrived;
  ResponseWriter* const writer_;           // until its Finish
  std::optional<ClientRequest> request_;   // while kRead
  std::unique_ptr<ModelUse> model_use_;    // from kRead to the end, where requests load models
  std::optional<GenerationPlan> plan_;     // while kPlanned
  std::shared_ptr<PendingImages> images_;  // while kPlanned, of a chat with images; uses plan_->model
  engine::TimeNs images_since_ = 0;
  std::shared_ptr<const engine::PromptRows> rows_;  // of a chat with images, until its outputs have ended
  bool quota_reserved_ = false;
  std::unique_ptr<PendingConstraint> constraint_;  // while kPlanned, of a plan with a grammar; uses plan_->model
  ModelLease model_;                               // from Submit to the end
  AdapterUses::Use adapter_use_;                   // of model_'s, the same; empty without an adapter
  std::unique_ptr<GenerationOutputs> outputs_;     // null before Submit
  OutputChunk chunk_;                              // the next one, as far as filled; its memory is reused
  bool first_chunk_waits_ = false;                 // for the first token
  bool first_chunk_sent_ = false;
  bool watched_ = false;
  bool model_freed_ = false;  // of a request that frees its model
  bool reported_ = false;
  RequestRecord record_;
  Admission::Ticket ticket_;
};

}  // namespace dunlin::server
