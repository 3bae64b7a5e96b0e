// SPDX-License-Identifier: Apache-2.0
// A generation whose response is a stream of messages. One write is outstanding; the last message goes out with the
// status. Initial metadata goes out with the first chunk, also if that makes no message. Thread and ownership rules: as
// GenerationCall.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/grpc_calls/generation_call.h"
#include "server/grpc_calls/wire_messages.h"

namespace dunlin::server {

class GenerationStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public GenerationCall {
 public:
  // Takes the call over, or refuses it. method outlives it. Never null.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(const GenerationMethod& method,
                                                           grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer& message);

 private:
  using GenerationCall::GenerationCall;

  void OnWriteDone(bool ok) override;
  void OnCancel() override { generation()->Cancel(); }
  void OnDone() override { Close(); }

  void Write(const OutputChunk& chunk) override;
  void Finish(const ResponseEnd& end, const OutputChunk* last) override;

  void Render(const OutputChunk& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes the first of messages_, if there is one; once the call is finished, the last goes out with the status.
  // False if nothing was started.
  bool WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;  // guards what follows, and the order of gRPC's operations: Finish may come beside OnWriteDone
  WireMessages messages_ ABSL_GUARDED_BY(mutex_);          // to write
  grpc::ByteBuffer outgoing_ ABSL_GUARDED_BY(mutex_);      // of the outstanding write
  bool announced_ ABSL_GUARDED_BY(mutex_) = false;         // the request id, by the first chunk
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;           // a write is outstanding
  bool last_is_rendered_ ABSL_GUARDED_BY(mutex_) = false;  // messages_ are the last of a call that ended OK
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;          // the last operation is started
};

}  // namespace dunlin::server
