// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/call_counter.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "server/process/monotonic_clock.h"

namespace dunlin::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerInterceptorFactoryInterface;
using grpc::experimental::ServerRpcInfo;

// The bytes of a received message, which gRPC has as a pointer to what the service takes.
using SizeOf = size_t (*)(const void* message);

size_t BufferSize(const void* message) {
  return static_cast<const grpc::ByteBuffer*>(message)->Length();
}

template <class Message>
size_t MessageSize(const void* message) {
  return static_cast<const Message*>(message)->ByteSizeLong();
}

// Services that take parsed messages; all others take bytes.
struct ParsingService {
  const char* name;
  SizeOf size_of;
};
constexpr ParsingService kParsingServices[] = {
    {"grpc.health.v1.Health", &MessageSize<grpc::health::v1::HealthCheckRequest>},
    {"grpc.reflection.v1.ServerReflection", &MessageSize<grpc::reflection::v1::ServerReflectionRequest>},
    {"grpc.reflection.v1alpha.ServerReflection", &MessageSize<grpc::reflection::v1alpha::ServerReflectionRequest>},
};
constexpr std::string_view kTickedMethod = "/grpc.health.v1.Health/Check";

SizeOf SizeOfRequest(const std::string& service) {
  for (const ParsingService& row : kParsingServices) {
    if (service == row.name) return row.size_of;
  }
  return &BufferSize;
}

struct Method {
  RpcMethodObserver* observer = nullptr;
  SizeOf size_of = &BufferSize;
};

// One call, from its first metadata until gRPC has done with it. Its hooks run on the threads of the call's operations;
// of one kind one at a time, and all of them before the destructor.
class CountedCall final : public Interceptor {
 public:
  explicit CountedCall(const Method& method) : method_(method), begin_(MonotonicNs()) { method_.observer->OnStarted(); }

  ~CountedCall() override {
    const engine::TimeNs end = ended_ == 0 ? MonotonicNs() : ended_;
    method_.observer->OnEnded({status_, end - begin_, sent_bytes_, received_bytes_});
  }

  void Intercept(InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      const void* message = batch->GetRecvMessage();
      if (message != nullptr) received_bytes_ += method_.size_of(message);
    }
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      const grpc::ByteBuffer* message = batch->GetSerializedSendMessage();
      if (message != nullptr) sent_bytes_ += message->Length();
    }
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      status_ = static_cast<absl::StatusCode>(batch->GetSendStatus().error_code());
      ended_ = MonotonicNs();
    }
    batch->Proceed();
  }

 private:
  const Method method_;
  const engine::TimeNs begin_;
  engine::TimeNs ended_ = 0;  // 0: no status was sent
  absl::StatusCode status_ = absl::StatusCode::kCancelled;
  uint64_t sent_bytes_ = 0;
  uint64_t received_bytes_ = 0;
};

class CallCounter final : public ServerInterceptorFactoryInterface {
 public:
  CallCounter(RpcObserver* observer, const std::vector<std::string>& services)
      : other_{observer->ForMethod(kOtherMethod), &BufferSize} {
    const google::protobuf::DescriptorPool* pool = google::protobuf::DescriptorPool::generated_pool();
    for (const std::string& name : services) {
      const google::protobuf::ServiceDescriptor* service = pool->FindServiceByName(name);
      if (service == nullptr) continue;
      for (int i = 0; i < service->method_count(); ++i) {
        const std::string method = absl::StrCat(name, "/", service->method(i)->name());
        methods_[absl::StrCat("/", method)] = {observer->ForMethod(method), SizeOfRequest(name)};
      }
    }
  }

  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    const std::string_view name = info->method();
    if (name == kTickedMethod && !IsRemote(info)) return nullptr;
    const auto found = methods_.find(engine::AbslView(name));
    return new CountedCall(found == methods_.end() ? other_ : found->second);
  }

 private:
  static bool IsRemote(ServerRpcInfo* info) {
    const std::string peer = info->server_context()->peer();
    return absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:") || absl::StartsWith(peer, "unix:");
  }

  const Method other_;
  absl::flat_hash_map<std::string, Method> methods_;  // by "/service/method"; const after construction
};

}  // namespace

std::unique_ptr<ServerInterceptorFactoryInterface> NewCallCounter(RpcObserver* observer,
                                                                  const std::vector<std::string>& services) {
  return std::make_unique<CallCounter>(observer, services);
}

}  // namespace dunlin::server
