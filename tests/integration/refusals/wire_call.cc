// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/refusals/wire_call.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <vector>

namespace dunlin::integration {
namespace {

using std::chrono::system_clock;

constexpr auto kLongestWait = std::chrono::seconds(120);
constexpr auto kNoDeadline = std::chrono::hours(24);  // none that a busy server would refuse a long output for

// A window that stays at 64 KiB, so that a client that does not read blocks the server's writes soon; answers of any
// size.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, 1 << 20);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

WireCall::WireCall(const std::string& address, const Sent& sent) : channel_(ChannelTo(address)) {
  // A channel that is destroyed while it connects closes its descriptor only when another call lets gRPC poll.
  channel_->WaitForConnected(system_clock::now() + kLongestWait);
  context_.set_deadline(sent.deadline.has_value()
                            ? system_clock::now() + std::chrono::duration_cast<system_clock::duration>(*sent.deadline)
                            : system_clock::now() + kNoDeadline);
  if (sent.compressed) context_.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  for (const auto& [key, value] : sent.metadata) context_.AddMetadata(key, value);
  grpc::GenericStub stub(channel_);
  call_ = stub.PrepareCall(&context_, sent.method, &queue_);
  call_->StartCall(this);
  Wait();
}

WireCall::~WireCall() {
  if (!finished_) {
    context_.TryCancel();
    Finish();
  }
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool WireCall::Wait() {
  void* tag = nullptr;
  bool ok = false;
  const auto next = queue_.AsyncNext(&tag, &ok, system_clock::now() + kLongestWait);
  EXPECT_EQ(next, grpc::CompletionQueue::GOT_EVENT) << "the call is stuck";
  return next == grpc::CompletionQueue::GOT_EVENT && ok;
}

bool WireCall::Send(const std::string& message) {
  const grpc::Slice slice(message);
  call_->Write(grpc::ByteBuffer(&slice, 1), this);
  return Wait();
}

bool WireCall::HalfClose() {
  call_->WritesDone(this);
  return Wait();
}

bool WireCall::Read(std::string* message) {
  grpc::ByteBuffer buffer;
  call_->Read(&buffer, this);
  if (!Wait()) return false;
  std::vector<grpc::Slice> slices;
  message->clear();
  if (!buffer.Dump(&slices).ok()) return true;
  for (const grpc::Slice& slice : slices) message->append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return true;
}

Reply WireCall::Finish() {
  std::string message;
  while (Read(&message)) {
  }
  Reply reply;
  call_->Finish(&reply.status, this);
  Wait();
  finished_ = true;
  reply.details.ParseFromString(reply.status.error_details());
  reply.has_pushback = context_.GetServerTrailingMetadata().count("grpc-retry-pushback-ms") > 0;
  return reply;
}

}  // namespace dunlin::integration
