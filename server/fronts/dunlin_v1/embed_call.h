// SPDX-License-Identifier: Apache-2.0
// One Embed call on gRPC: passes its message to an EmbedJob and writes the response.
// Thread rule: the reactor's functions on gRPC's threads, the writer's as EmbedWriter says.
// Ownership: shared by gRPC (until OnDone) and its job (until Finish).
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "absl/status/status.h"
#include "server/fronts/dunlin_v1/unread_answer.h"
#include "server/serving/embed_job.h"
#include "server/serving/response_writer.h"
#include "server/serving/serving_core.h"

namespace dunlin::server {

class EmbedCall final : public grpc::ServerUnaryReactor, public EmbedWriter {
 public:
  // Takes the call over, or refuses it. core and *response outlive it. Never null.
  static grpc::ServerUnaryReactor* Start(ServingCore* core, grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer& message, grpc::ByteBuffer* response);

 private:
  EmbedCall(ServingCore* core, grpc::CallbackServerContext* context, const grpc::ByteBuffer& message,
            grpc::ByteBuffer* response)
      : core_(core), context_(context), message_(message), response_(response) {}

  void OnCancel() override {
    if (job_ != nullptr) job_->Cancel();
  }
  void OnDone() override {
    if (unread_ != nullptr) unread_->OnDone();
    const std::shared_ptr<EmbedCall> last = std::move(self_);
  }

  absl::Status ReadRequest(ClientEmbedRequest* request) override;
  void Finish(const ResponseEnd& end, const EmbedResult* result) override;

  ServingCore* const core_;
  std::shared_ptr<UnreadAnswer> unread_;        // from Finish on
  std::shared_ptr<EmbedCall> self_;             // gRPC's share: from Start to OnDone
  std::shared_ptr<EmbedJob> job_;               // null when the call is refused
  grpc::CallbackServerContext* const context_;  // until Finish
  grpc::ByteBuffer message_;                    // until it is parsed
  grpc::ByteBuffer* const response_;            // gRPC's, until OnDone
};

}  // namespace dunlin::server
