// SPDX-License-Identifier: Apache-2.0
// SubscribeKvEvents: batches of a model's KV event log as they are published, from where the caller left off. Initial
// metadata goes out at once. One write is outstanding; what a slow caller misses is DATA_LOSS, never memory.
// Thread rule: the reactor's functions on gRPC's threads, OnKvEvents on the engine's, the rest on the text pool.
// Ownership: shared by gRPC (until OnDone), the text pool while it is scheduled, and for a moment the service.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/cache/kv_events.h"
#include "server/grpc_calls/wire_messages.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/core/text_pool.h"

namespace dunlin::server {

class KvEventStream;

// The streams of a server, which end when it starts to drain: no router would end them, and they would hold it up.
class KvEventStreams {
 public:
  // False once EndAll was called.
  bool Add(const std::shared_ptr<KvEventStream>& stream);
  void Remove(const std::shared_ptr<KvEventStream>& stream);
  // Ends all streams with UNAVAILABLE; no further ones begin.
  void EndAll();
  // Ends those of a model with UNAVAILABLE.
  void EndOf(const std::string& model);

 private:
  absl::Mutex mutex_;  // guards what follows; never held while a stream ends
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<KvEventStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

class KvEventStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                            public TextTask,
                            public engine::KvEventListener {
 public:
  // Takes the call over. log: of the model. after: the last batch that the caller has; 0: none. core and streams
  // outlive the call. Never null. Ends with RESOURCE_EXHAUSTED where the log has as many listeners as it takes.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(ServingCore* core, KvEventStreams* streams,
                                                           std::string model, std::shared_ptr<engine::KvEventLog> log,
                                                           uint64_t after);

  const std::string& model() const { return model_; }
  // Any thread; the first status is the call's.
  void End(const absl::Status& status);

 private:
  KvEventStream(ServingCore* core, KvEventStreams* streams, std::string model, std::shared_ptr<engine::KvEventLog> log,
                uint64_t after)
      : core_(core),
        streams_(streams),
        model_(std::move(model)),
        log_(std::move(log)),
        after_(after),
        from_start_(after == 0) {}

  void OnKvEvents() override { core_->text_pool()->Schedule(this); }
  void OnWriteDone(bool ok) override;
  void OnCancel() override { End(absl::CancelledError("the caller has gone")); }
  void OnDone() override;
  void Run() override;

  // Renders the batches after after_. Errors: OUT_OF_RANGE, DATA_LOSS.
  absl::Status ReadLog() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RenderSnapshot() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ServingCore* const core_;
  KvEventStreams* const streams_;
  const std::string model_;
  const std::shared_ptr<engine::KvEventLog> log_;
  std::shared_ptr<KvEventStream> self_;  // gRPC's share: from Start to OnDone
  bool listens_ = false;                 // const after Start

  absl::Mutex mutex_;  // guards what follows, and the order of gRPC's operations
  uint64_t after_ ABSL_GUARDED_BY(mutex_);
  bool from_start_ ABSL_GUARDED_BY(mutex_);  // the caller has nothing yet
  WireMessages messages_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer outgoing_ ABSL_GUARDED_BY(mutex_);
  bool sent_ ABSL_GUARDED_BY(mutex_) = false;  // a batch
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dunlin::server
