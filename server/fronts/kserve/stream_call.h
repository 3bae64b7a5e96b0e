// SPDX-License-Identifier: Apache-2.0
// One ModelStreamInfer: the requests that a client multiplexes on a stream, each admitted on its own and with a
// generation or an embedding of its own, and their responses in the order in which they were made. A request that fails
// ends with an error_message; with the metadata "triton_grpc_error: true", it ends the stream with its status instead.
// Bounds: a request has one response outstanding (ResponseWriter), and the next request is read only while few
// responses wait, so a client that does not read stops the stream, and is cut off by the watch for stalled readers.
// Thread rule: the reactor's functions on gRPC's threads, the others on any.
// Ownership: shared by gRPC (until OnDone) and its requests.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "server/grpc_calls/call_admission.h"
#include "server/grpc_calls/call_cut_off.h"
#include "server/grpc_calls/wire_messages.h"
#include "server/serving/core/stall_watch.h"

namespace dunlin::server::kserve {

// A request of a stream, as the stream sees it. Any thread; none of the functions blocks.
class StreamRequest {
 public:
  virtual ~StreamRequest() = default;
  virtual void Start() = 0;
  virtual void Cancel() = 0;
  // The responses of the last Send are written, or will never be. Called for each Send but the last.
  virtual void OnWritten(bool ok) = 0;
  // The stream is done with the request.
  virtual void OnClosed() = 0;
};

class StreamCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>, public StallWatch::Call {
 public:
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

  // Takes the call over, or refuses it. admission and method outlive it. Never null.
  static Reactor* Start(const CallAdmission& admission, const char* method, grpc::CallbackServerContext* context);

  // Takes the messages, of which there is at least one unless it is the request's last Send.
  void Send(const std::shared_ptr<StreamRequest>& request, WireMessages* messages, bool last);
  // The last Send of a request that failed.
  void Fail(const std::shared_ptr<StreamRequest>& request, const std::string& id, const grpc::Status& status);
  // Ends the stream without waiting for what the client does not read.
  void CutOff() override { call_.CutOff(); }

 private:
  using Requests = std::vector<std::shared_ptr<StreamRequest>>;
  struct Outgoing {
    grpc::ByteBuffer message;
    std::shared_ptr<StreamRequest> request;  // told when this is written; null: of a refusal, or not its Send's last
    bool last = false;
  };

  StreamCall(const CallAdmission& admission, grpc::CallbackServerContext* context, Principal caller);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void StartRequest(const grpc::ByteBuffer& message);
  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishIfDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops what waits, and cancels every request.
  void Break(const grpc::Status& status);
  static void Acknowledge(const Outgoing& written, bool ok);
  engine::TimeNs unread_since() const override { return writing_since_.load(std::memory_order_relaxed); }

  ServingCore* const core_;
  const CallAdmission& admission_;
  grpc::CallbackServerContext* const context_;  // until OnDone
  const Principal caller_;
  const bool errors_end_stream_;
  CallCutOff call_;
  std::shared_ptr<StreamCall> self_;  // gRPC's share: from Start to OnDone
  std::atomic<engine::TimeNs> writing_since_{0};

  grpc::ByteBuffer incoming_;  // gRPC's while a read is outstanding

  absl::Mutex mutex_;  // guards what follows; never held while a request is called
  absl::flat_hash_set<std::shared_ptr<StreamRequest>> requests_ ABSL_GUARDED_BY(mutex_);  // not closed yet
  std::deque<Outgoing> waiting_ ABSL_GUARDED_BY(mutex_);
  Outgoing written_ ABSL_GUARDED_BY(mutex_);  // while writing_
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool no_more_requests_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server::kserve
