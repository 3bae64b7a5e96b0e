// SPDX-License-Identifier: Apache-2.0
// GetTokenizer: the archive of a model's tokenizer in chunks, under admission as every call that reads files.
// Thread rule: the reactor's functions on gRPC's threads, Run on the text pool.
// Ownership: gRPC holds it until OnDone, the text pool while it is scheduled.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/fronts/smg_worker/tokenizer_archive.h"
#include "server/grpc_calls/call_admission.h"
#include "server/grpc_calls/unread_answer.h"
#include "server/serving/core/text_pool.h"

namespace dunlin::server {

class TokenizerStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public TextTask {
 public:
  // Takes an admitted call over. core and archives outlive it. Never null.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(ServingCore* core, TokenizerArchives* archives,
                                                           grpc::CallbackServerContext* context, AdmittedCall admitted,
                                                           std::string model);

 private:
  TokenizerStream(ServingCore* core, TokenizerArchives* archives, grpc::CallbackServerContext* context,
                  AdmittedCall admitted, std::string model)
      : core_(core), archives_(archives), context_(context), admitted_(std::move(admitted)), model_(std::move(model)) {}

  void OnWriteDone(bool ok) override;
  void OnDone() override;
  void Run() override;
  absl::Status Open();
  void WriteNext();

  ServingCore* const core_;
  TokenizerArchives* const archives_;
  grpc::CallbackServerContext* const context_;  // until the last operation
  AdmittedCall admitted_;
  const std::string model_;
  std::shared_ptr<TokenizerStream> self_;  // gRPC's share: from Start to OnDone

  // Of the thread that runs the task, between whose runs a write is outstanding.
  std::shared_ptr<const TokenizerArchive> archive_;
  size_t offset_ = 0;
  grpc::ByteBuffer outgoing_;
  std::shared_ptr<UnreadAnswer> unread_;  // of the outstanding write
};

}  // namespace dunlin::server
