// SPDX-License-Identifier: Apache-2.0
// A gRPC call in bytes, on a connection of its own, one operation at a time. Every wait ends within a minute.
// One thread.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <string>

#include "google/rpc/status.pb.h"
#include "tests/integration/refusals/row.h"

namespace dunlin::integration {

// How a call ended.
struct Reply {
  grpc::Status status;
  google::rpc::Status details;  // of grpc-status-details-bin; empty without it
  bool has_pushback = false;    // grpc-retry-pushback-ms

  // The first detail of this kind; whether there is one.
  template <class Detail>
  bool Get(Detail* detail) const {
    for (const auto& any : details.details()) {
      if (any.UnpackTo(detail)) return true;
    }
    return false;
  }
};

class WireCall {
 public:
  // Opens the connection and the call; sends nothing but its headers.
  WireCall(const std::string& address, const Sent& sent);
  // Cancels what is still in progress.
  ~WireCall();
  WireCall(const WireCall&) = delete;
  WireCall& operator=(const WireCall&) = delete;

  // False when the call is over.
  bool Send(const std::string& message);
  bool HalfClose();
  bool Read(std::string* message);
  void Cancel() { context_.TryCancel(); }  // from any thread
  // Reads the rest of the answer.
  Reply Finish();

 private:
  bool Wait();

  grpc::ClientContext context_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool finished_ = false;
};

}  // namespace dunlin::integration
