// SPDX-License-Identifier: Apache-2.0
// One Generate call on gRPC: passes its message to a Generation and writes the chunks. A refusal sends no initial
// metadata, so that a client's retry policy can apply.
// Thread rule: the reactor's functions on gRPC's threads, the writer's as ResponseWriter says.
// Ownership: shared by gRPC (until OnDone) and its generation (until OnClosed).
#pragma once

#include <grpc/grpc.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "dunlin/v1/generation.pb.h"
#include "server/fronts/dunlin_v1/admission_replies.h"
#include "server/serving/generation.h"
#include "server/serving/response_writer.h"
#include "server/serving/serving_core.h"

namespace dunlin::server {

class GenerateCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public ResponseWriter {
 public:
  // Takes the call over, or refuses it. core and replies outlive it. Never null.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(ServingCore* core, const AdmissionReplies& replies,
                                                           grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer& message);

 private:
  GenerateCall(ServingCore* core, grpc::CallbackServerContext* context, const grpc::ByteBuffer& message)
      : core_(core), call_(context->c_call()), context_(context), message_(message) {}

  void OnWriteDone(bool ok) override { generation_->OnWriteDone(ok); }
  void OnCancel() override { generation_->Cancel(); }
  void OnDone() override;

  absl::Status ReadRequest(ClientRequest* request) override;
  void Write(const OutputChunk& chunk) override;
  void Finish(const ResponseEnd& end, const OutputChunk* last) override;
  void CutOff() override;

  void Serialize(const OutputChunk& chunk);

  ServingCore* const core_;
  std::shared_ptr<GenerateCall> self_;      // gRPC's share: from Start to OnDone
  std::shared_ptr<Generation> generation_;  // from Start to OnDone

  absl::Mutex call_mutex_;                        // guards call_, between CutOff and OnDone
  grpc_call* call_ ABSL_GUARDED_BY(call_mutex_);  // null after OnDone

  // Of the writer.
  grpc::CallbackServerContext* const context_;  // until the call's last operation is started
  grpc::ByteBuffer message_;                    // until it is parsed
  v1::GenerateResponse response_;               // memory is reused
  grpc::ByteBuffer write_buffer_;               // of the outstanding write
  bool first_written_ = false;
};

}  // namespace dunlin::server
