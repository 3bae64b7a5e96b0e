// One Embed call, from its arrival to its one terminal status.
//
//   gRPC thread    Start: admission by count and bytes, then the text pool
//   text pool      Begin: parse, check, tokenise, resolve, Validate, Submit      refused -> Finish(status)
//   engine thread  OnFinish: takes the call back with its vectors, schedules
//   text pool      Answer: one response, or the status of how it ended
//   gRPC thread    OnCancel: cancels in the engine at once, schedules
//
// A cancel or a deadline ends the call with that status as soon as the text pool sees it.
// Ownership: shared. gRPC holds it until OnDone, the pool while it is scheduled, the engine until OnFinish. The
// admission ticket goes with the last of them.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/encoder/encode_call.h"
#include "server/admission.h"
#include "server/grpc/edge.h"
#include "server/grpc/embed_plan.h"
#include "server/request_record.h"
#include "server/text_pool.h"

namespace dunlin::server {

class EmbedCall final : public grpc::ServerUnaryReactor, public TextTask, public engine::EncodeSink {
 public:
  // Takes the call over. edge and *response outlive it. Never null.
  static EmbedCall* Start(const Edge& edge, grpc::CallbackServerContext* context, const grpc::ByteBuffer& wire,
                          grpc::ByteBuffer* response);

 private:
  enum class Phase : uint8_t { kArrived, kRunning, kEnded };

  EmbedCall(const Edge& edge, grpc::CallbackServerContext* context, grpc::ByteBuffer* response);

  // gRPC's threads.
  void OnCancel() override;
  void OnDone() override { const std::shared_ptr<EmbedCall> last = std::move(self_); }
  // The engine thread.
  void OnFinish(std::unique_ptr<engine::EncodeCall> call) override;

  // The text pool.
  void Run() override;
  absl::Status Begin();
  absl::Status Submit(EmbedPlan plan);
  void Continue();
  void Answer();
  // The terminal status; also from Start, before anything is scheduled.
  void End(const absl::Status& status);
  // Tells the observer, once the status is known and the engine is done.
  void Report();

  const Edge& edge_;
  std::shared_ptr<EmbedCall> self_;  // gRPC's share: from Start to OnDone

  // Any thread.
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> engine_done_{false};  // finished_ is set
  absl::Mutex submit_mutex_;              // a cancel that comes while the call is submitted must reach the engine
  engine::EncoderEngine* engine_ ABSL_GUARDED_BY(submit_mutex_) = nullptr;
  engine::RequestId engine_id_ ABSL_GUARDED_BY(submit_mutex_) = 0;

  // Text pool only (Start's thread before the first Schedule).
  Phase phase_ = Phase::kArrived;
  grpc::CallbackServerContext* const context_;  // until Finish
  grpc::ByteBuffer* const response_;            // gRPC's, until OnDone
  grpc::ByteBuffer request_;                    // until it is parsed
  std::vector<bool> truncated_;
  std::unique_ptr<engine::EncodeCall> finished_;  // written by the engine thread, read after engine_done_
  engine::TimeNs deadline_ = engine::kNoDeadline;
  bool submitted_ = false;
  bool reported_ = false;
  RequestRecord record_;
  Admission::Ticket ticket_;
};

}  // namespace dunlin::server
