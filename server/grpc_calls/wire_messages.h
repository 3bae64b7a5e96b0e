// SPDX-License-Identifier: Apache-2.0
// The messages of a response that are not yet written, serialised. A translator adds them, the call takes them in
// order. Reuses its memory. Thread rule: one thread at a time.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <vector>

#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {

class WireMessages {
 public:
  // Serialises the message, which may be reused afterwards.
  void Add(const google::protobuf::Message& message) {
    grpc::ByteBuffer wire = SerializeWire(message);
    waiting_.emplace_back().Swap(&wire);
  }
  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size() - taken_; }
  // Overwrites *wire with the oldest message. REQUIRES: !empty().
  void TakeFirst(grpc::ByteBuffer* wire) {
    wire->Swap(&waiting_[taken_++]);
    if (taken_ == waiting_.size()) Clear();
  }
  void Clear() {
    waiting_.clear();
    taken_ = 0;
  }

 private:
  std::vector<grpc::ByteBuffer> waiting_;  // from taken_ on; empty if all are taken
  size_t taken_ = 0;
};

}  // namespace dunlin::server
