// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/smg_worker/kv_event_stream.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/fronts/smg_worker/kv_event_messages.h"
#include "server/transport/grpc/grpc_status.h"

namespace dunlin::server {
namespace {

constexpr size_t kBatchesAtOnce = 64;                  // rendered in one run of the task
constexpr size_t kMaxSnapshotBytes = size_t{3} << 20;  // routers take messages of 4 MiB

}  // namespace

bool KvEventStreams::Add(const std::shared_ptr<KvEventStream>& stream) {
  absl::MutexLock lock(&mutex_);
  if (!ended_) streams_.insert(stream);
  return !ended_;
}

void KvEventStreams::Remove(const std::shared_ptr<KvEventStream>& stream) {
  absl::MutexLock lock(&mutex_);
  streams_.erase(stream);
}

void KvEventStreams::EndAll() {
  std::set<std::shared_ptr<KvEventStream>> open;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    open.swap(streams_);
  }
  for (const auto& stream : open) stream->End(absl::UnavailableError("the server is draining"));
}

void KvEventStreams::EndOf(const std::string& model) {
  std::vector<std::shared_ptr<KvEventStream>> open;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& stream : streams_) {
      if (stream->model() == model) open.push_back(stream);
    }
  }
  for (const auto& stream : open) stream->End(absl::UnavailableError("the model was unloaded or replaced"));
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* KvEventStream::Start(ServingCore* core, KvEventStreams* streams,
                                                                 std::string model,
                                                                 std::shared_ptr<engine::KvEventLog> log,
                                                                 uint64_t after) {
  std::shared_ptr<KvEventStream> stream(new KvEventStream(core, streams, std::move(model), std::move(log), after));
  stream->self_ = stream;
  if (!streams->Add(stream)) {
    stream->End(absl::UnavailableError("the server is draining"));
    return stream.get();
  }
  stream->listens_ = stream->log_->AddListener(stream.get());
  if (!stream->listens_) {
    stream->End(absl::ResourceExhaustedError(
        absl::StrCat("there are ", engine::KvEventLog::kMaxListeners, " subscriptions, the most that one model has")));
    return stream.get();
  }
  {
    absl::MutexLock lock(&stream->mutex_);
    if (!stream->ended_) stream->StartSendInitialMetadata();
  }
  core->text_pool()->Schedule(stream.get());
  return stream.get();
}

void KvEventStream::End(const absl::Status& status) {
  const std::shared_ptr<KvEventStream> alive = std::static_pointer_cast<KvEventStream>(shared_from_this());
  absl::MutexLock lock(&mutex_);
  EndLocked(status);
}

void KvEventStream::EndLocked(const absl::Status& status) {
  if (std::exchange(ended_, true)) return;
  messages_.Clear();
  Finish(ToGrpcStatus(status));
}

void KvEventStream::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) EndLocked(absl::CancelledError("the caller has gone"));
  }
  core_->text_pool()->Schedule(this);
}

void KvEventStream::OnDone() {
  if (listens_) log_->RemoveListener(this);
  streams_->Remove(self_);
  const std::shared_ptr<KvEventStream> last = std::move(self_);
}

void KvEventStream::Run() {
  absl::MutexLock lock(&mutex_);
  if (ended_ || writing_) return;
  if (messages_.empty()) {
    if (absl::Status s = ReadLog(); !s.ok()) return EndLocked(s);
  }
  if (messages_.empty()) return;
  messages_.TakeFirst(&outgoing_);
  sent_ = writing_ = true;
  StartWrite(&outgoing_);
}

absl::Status KvEventStream::ReadLog() {
  std::vector<engine::KvEventBatch> batches;
  absl::Status status = log_->Read(after_, kBatchesAtOnce, &batches);
  if (absl::IsOutOfRange(status) && std::exchange(from_start_, false)) {
    RenderSnapshot();
    return absl::OkStatus();
  }
  if (absl::IsOutOfRange(status) && sent_) {
    return absl::DataLossError(absl::StrCat("batch ", after_ + 1, " is no longer kept; subscribe from 0"));
  }
  if (!status.ok()) return status;
  for (const engine::KvEventBatch& batch : batches) {
    messages_.Add(BatchToWire(batch));
    after_ = batch.number;
    from_start_ = false;
  }
  return absl::OkStatus();
}

void KvEventStream::RenderSnapshot() {
  const engine::KvSnapshot snapshot = log_->Snapshot();
  messages_.Add(SnapshotToWire(snapshot, kMaxSnapshotBytes));
  after_ = snapshot.number;
}

}  // namespace dunlin::server
