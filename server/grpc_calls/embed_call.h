// SPDX-License-Identifier: Apache-2.0
// One embedding call on gRPC: passes its message to an EmbedJob through its translator and writes the response.
// Thread rule: the reactor's functions on gRPC's threads, the writer's as EmbedWriter says.
// Ownership: shared by gRPC (until OnDone) and its job (until Finish).
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "server/grpc_calls/call_admission.h"
#include "server/grpc_calls/embed_call_translator.h"
#include "server/grpc_calls/unread_answer.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/embed/embed_job.h"
#include "server/serving/output/response_writer.h"

namespace dunlin::server {

// What the calls of one method share; outlives them.
struct EmbedMethod {
  const CallAdmission* admission;
  const char* name;                                                       // as the endpoint table names it
  std::function<std::unique_ptr<EmbedCallTranslator>()> make_translator;  // called for admitted calls
};

class EmbedCall final : public grpc::ServerUnaryReactor, public EmbedWriter {
 public:
  // Takes the call over, or refuses it. method and *response outlive it. Never null.
  static grpc::ServerUnaryReactor* Start(const EmbedMethod& method, grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer& message, grpc::ByteBuffer* response);

 private:
  EmbedCall(const EmbedMethod& method, grpc::CallbackServerContext* context, const grpc::ByteBuffer& message,
            grpc::ByteBuffer* response)
      : core_(method.admission->core()),
        context_(context),
        translator_(method.make_translator()),
        message_(message),
        response_(response) {}

  void OnCancel() override { job_->Cancel(); }
  void OnDone() override {
    if (unread_ != nullptr) unread_->OnDone();
    const std::shared_ptr<EmbedCall> last = std::move(self_);
  }

  absl::Status ReadRequest(ClientEmbedRequest* request) override;
  void Finish(const ResponseEnd& end, const EmbedResult* result) override;

  ServingCore* const core_;
  std::shared_ptr<UnreadAnswer> unread_;        // from Finish on
  std::shared_ptr<EmbedCall> self_;             // gRPC's share: from Start to OnDone
  std::shared_ptr<EmbedJob> job_;               // from Start on
  grpc::CallbackServerContext* const context_;  // until Finish
  const std::unique_ptr<EmbedCallTranslator> translator_;
  grpc::ByteBuffer message_;          // until it is parsed
  grpc::ByteBuffer* const response_;  // gRPC's, until OnDone
};

}  // namespace dunlin::server
