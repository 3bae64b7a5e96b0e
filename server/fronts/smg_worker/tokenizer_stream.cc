// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/smg_worker/tokenizer_stream.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "server/serving/resolve/key_limits.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/wire_buffer.h"
#include "smg/common.pb.h"

namespace dunlin::server {
namespace {

constexpr size_t kChunkBytes = size_t{64} << 10;

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* TokenizerStream::Start(ServingCore* core, TokenizerArchives* archives,
                                                                   grpc::CallbackServerContext* context,
                                                                   AdmittedCall admitted, std::string model) {
  std::shared_ptr<TokenizerStream> stream(
      new TokenizerStream(core, archives, context, std::move(admitted), std::move(model)));
  stream->self_ = stream;
  core->text_pool()->Schedule(stream.get());
  return stream.get();
}

absl::Status TokenizerStream::Open() {
  const absl::StatusOr<ModelLease> model = LeaseFor(*core_, admitted_.client.principal, model_);
  if (!model.ok()) return model.status();
  absl::StatusOr<std::shared_ptr<const TokenizerArchive>> archive = archives_->Get(*model);
  if (!archive.ok()) return archive.status();
  archive_ = *std::move(archive);
  return absl::OkStatus();
}

void TokenizerStream::Run() {
  if (context_->IsCancelled()) return Finish(grpc::Status::CANCELLED);
  if (archive_ == nullptr) {
    if (absl::Status s = Open(); !s.ok()) return Finish(ToGrpcStatus(s));
  }
  WriteNext();
}

void TokenizerStream::WriteNext() {
  const std::string& bytes = archive_->bytes;
  const size_t end = std::min(offset_ + kChunkBytes, bytes.size());
  ::smg::grpc::common::GetTokenizerChunk chunk;
  chunk.set_data(bytes.data() + offset_, end - offset_);
  const bool last = end == bytes.size();
  if (last) chunk.set_sha256(archive_->sha256);
  offset_ = end;
  grpc::ByteBuffer wire = SerializeWire(chunk);
  outgoing_.Swap(&wire);
  unread_ = UnreadAnswer::Watch(core_, context_->c_call());
  if (last) return StartWriteAndFinish(&outgoing_, grpc::WriteOptions(), grpc::Status::OK);
  StartWrite(&outgoing_);
}

void TokenizerStream::OnWriteDone(bool ok) {
  if (offset_ == archive_->bytes.size()) return;  // the last one, which had the status
  std::exchange(unread_, nullptr)->OnDone();
  if (!ok) return Finish(grpc::Status::CANCELLED);
  core_->text_pool()->Schedule(this);
}

void TokenizerStream::OnDone() {
  if (unread_ != nullptr) unread_->OnDone();
  const std::shared_ptr<TokenizerStream> last = std::move(self_);
}

}  // namespace dunlin::server
