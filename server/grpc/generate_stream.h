// One Generate call, from its arrival to its one terminal status.
//
//   gRPC thread   Start: admission by count and bytes (refused -> RefusedCall), then the text pool; a small message is
//                 taken on this thread
//   text pool     Plan: parse, check, tokenise, resolve, Validate                          refused -> Finish(status)
//                 Submit: n requests
//                 Continue: first message at once (what runs, request id), or with the first token when the engine was
//                 idle; then, whenever no write is pending, one message of what the next output gathered; the last
//                 `finish` goes with StartWriteAndFinish(OK)
//   engine thread OutputQueue: into the ring, schedule; the last message of the engine's only request
//   gRPC thread   OnWriteDone, OnCancel: schedule; OnCancel also cancels in the engine at once
//
// A failure of any output, a cancel or a deadline ends the call with that status; tokens not yet sent are dropped then.
// A refusal sends no initial metadata, so that a client's retry policy may act on it.
// Ownership: shared. gRPC holds it until OnDone, the pool while it is scheduled, the engine (as the outputs' sink) for
// as long as it likes, but it is quiet after OnFinish. The admission ticket is given back when all three are done with
// it.
#pragma once

#include <grpc/grpc.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "dunlin/v1/generation.pb.h"
#include "server/admission.h"
#include "server/grpc/edge.h"
#include "server/grpc/generate_outputs.h"
#include "server/grpc/stall_watch.h"
#include "server/grpc/submitted_requests.h"
#include "server/request_record.h"
#include "server/text_pool.h"

namespace dunlin::server {

class GenerateStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                             public TextTask,
                             public StallWatch::Call {
 public:
  // Takes the call over, or has it refused. edge outlives it. Never null.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(const Edge& edge, grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer& wire);

 private:
  enum class Phase : uint8_t { kArrived, kPlanned, kStreaming, kEnded };

  GenerateStream(const Edge& edge, grpc::CallbackServerContext* context);

  // gRPC's threads.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // The text pool; the brief part on gRPC's threads and the engine's.
  void Run() override;
  void RunBriefly() override;
  void Advance(bool briefly);
  absl::Status Plan();
  absl::Status Submit();
  void Continue();
  void Write(bool last);
  // The terminal status of a call that does not end well.
  void End(const absl::Status& status);
  // Tells the observer, once the status is known and the engine is done; gives the ticket back once gRPC is done too.
  void Report();
  absl::Status CancelledStatus() const;

  // From when the engine is done: what is left is up to the client.
  // REQUIRES: before the call's last operation is started, as OnDone ends the watch.
  void WatchForStall();
  void CutOff() override;

  const Edge& edge_;
  std::shared_ptr<GenerateStream> self_;  // gRPC's share: from Start to OnDone

  // Any thread.
  SubmittedRequests requests_;
  std::atomic<bool> write_pending_{false};
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> cut_off_{false};
  std::atomic<bool> done_{false};  // OnDone was called
  absl::Mutex call_mutex_;
  grpc_call* call_ ABSL_GUARDED_BY(call_mutex_);  // null after OnDone

  // Who runs the task (Start's thread before that).
  Phase phase_ = Phase::kArrived;
  grpc::CallbackServerContext* const context_;  // until the call's last operation is started
  grpc::ByteBuffer request_;                    // until it is parsed
  std::optional<GeneratePlan> plan_;            // while kPlanned
  std::unique_ptr<GenerateOutputs> outputs_;    // null before Submit
  v1::GenerateResponse response_;               // the next message, as far as it is known; keeps its memory
  grpc::ByteBuffer write_buffer_;               // of the pending write
  engine::TimeNs deadline_ = engine::kNoDeadline;
  bool first_message_waits_ = false;  // for the first token
  bool first_message_sent_ = false;
  bool watched_ = false;
  bool reported_ = false;
  RequestRecord record_;
  Admission::Ticket ticket_;
};

}  // namespace dunlin::server
