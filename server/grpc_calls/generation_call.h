// SPDX-License-Identifier: Apache-2.0
// One call that generates text on gRPC: what a stream of responses (GenerationStream) and a unary response
// (GenerationUnary) do alike. Its message goes to a Generation through its translator. A refusal sends no initial
// metadata, so that a client's retry policy can apply.
// Thread rule: the reactor's functions on gRPC's threads, the writer's as ResponseWriter says.
// Ownership: shared by gRPC (until OnDone) and its generation (until OnClosed).
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "server/grpc_calls/call_admission.h"
#include "server/grpc_calls/call_cut_off.h"
#include "server/grpc_calls/call_translator.h"
#include "server/grpc_calls/running_calls.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/generation/generation.h"
#include "server/serving/output/response_writer.h"

namespace dunlin::server {

// What the calls of one method share; outlives them.
struct GenerationMethod {
  const CallAdmission* admission;
  const char* name;                                                  // as the endpoint table names it
  std::function<std::unique_ptr<CallTranslator>()> make_translator;  // called for admitted calls
  RunningCalls* running = nullptr;                                   // knows the calls by their ids; null: nobody does
};

class GenerationCall : public ResponseWriter {
 public:
  absl::Status ReadRequest(ClientRequest* request) final;
  void CutOff() final { call_.CutOff(); }

 protected:
  GenerationCall(const GenerationMethod& method, grpc::CallbackServerContext* context, const grpc::ByteBuffer& message);

  // Starts the generation; gRPC's share of the call ends with Close. self: this call.
  void Begin(AdmittedCall admitted, std::shared_ptr<GenerationCall> self);
  // The reactor's OnDone: may delete this.
  void Close();

  // Before the first message goes out.
  void AnnounceRequestId(const std::string& request_id);
  // The status of a call that fails, whose trailing metadata it adds. announced: AnnounceRequestId was called.
  grpc::Status FailureOf(const ResponseEnd& end, bool announced);

  const std::shared_ptr<GenerationCall>& self() const { return self_; }
  Generation* generation() const { return generation_.get(); }
  CallTranslator* translator() const { return translator_.get(); }

 private:
  const GenerationMethod& method_;
  ServingCore* const core_;
  grpc::CallbackServerContext* const context_;  // until the call's last operation is started
  CallCutOff call_;
  grpc::ByteBuffer message_;  // until it is parsed
  std::unique_ptr<CallTranslator> translator_;
  std::shared_ptr<GenerationCall> self_;    // gRPC's share: from Begin to Close
  std::shared_ptr<Generation> generation_;  // from Begin to Close
  Principal caller_;                        // where method_.running is set
  std::string running_id_;                  // in method_.running; "" if it is not
};

}  // namespace dunlin::server
