// SPDX-License-Identifier: Apache-2.0
#include "tests/server/keys/any_rpc.h"

#include <grpcpp/generic/generic_stub.h>

#include <chrono>

namespace dunlin::server {
namespace {

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

}  // namespace

RpcAnswer CallAnyRpc(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::vector<std::string>& authorization, const std::string& message) {
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  context.AddMetadata("x-request-id", "mine");
  for (const std::string& value : authorization) context.AddMetadata("authorization", value);
  grpc::GenericStub stub(channel);
  const auto call = stub.PrepareCall(&context, method, &queue);
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  wait();
  grpc::Slice slice(message);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  wait();
  RpcAnswer answer;
  grpc::ByteBuffer wire;
  call->Read(&wire, nullptr);
  answer.answered = wait();
  if (answer.answered) context.TryCancel();
  call->Finish(&answer.status, nullptr);
  wait();
  if (answer.answered) {
    answer.message = BytesOf(wire);
    answer.status = grpc::Status::OK;
  }
  return answer;
}

}  // namespace dunlin::server
