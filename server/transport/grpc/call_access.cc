// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/call_access.h"

#include <google/protobuf/descriptor.h>

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/access/tenant.h"
#include "server/serving/resolve/authorize.h"

namespace dunlin::server {
namespace {

constexpr char kAuthorizationKey[] = "authorization";

// "" unless there is exactly one.
std::string_view PresentedKey(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto [first, last] = metadata.equal_range(kAuthorizationKey);
  if (first == last || std::next(first) != last) return {};
  return BearerKey({first->second.data(), first->second.size()});
}

}  // namespace

std::string_view AddressOfPeer(std::string_view peer) {
  for (const std::string_view scheme : {"ipv4:", "ipv6:"}) {
    if (peer.substr(0, scheme.size()) != scheme) continue;
    peer.remove_prefix(scheme.size());
    peer = peer.substr(0, peer.rfind(':'));
    for (const std::string_view open : {"[", "%5B"}) {
      if (peer.substr(0, open.size()) != open || peer.size() < 2 * open.size()) continue;
      peer.remove_prefix(open.size());
      peer.remove_suffix(open.size());
    }
    break;
  }
  return peer;
}

absl::StatusOr<Principal> CallerOf(const AccessControl& access, const EndpointTable& endpoints, const char* method,
                                   const grpc::CallbackServerContext& context) {
  absl::StatusOr<Principal> caller =
      Authorize(access, endpoints, method, PresentedKey(context), [&context] { return context.peer(); });
  if (caller.ok() && !access.enabled()) caller->address = TenantOfAddress(AddressOfPeer(context.peer()));
  return caller;
}

absl::StatusOr<Principal> CallerOf(const ServingCore& core, const char* method,
                                   const grpc::CallbackServerContext& context) {
  return CallerOf(core.access(), core.endpoints(), method, context);
}

Principal PeekCaller(const ServingCore& core, const char* method, const grpc::CallbackServerContext& context) {
  const Endpoint* const endpoint = core.endpoints().Find(method);
  if (!core.access().enabled() || endpoint == nullptr) return {};
  return core.access().Authorize(PresentedKey(context), *endpoint, absl::Now()).principal;
}

std::vector<std::string> MethodsOf(const std::vector<std::string>& services) {
  std::vector<std::string> methods;
  for (const std::string& name : services) {
    const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
      methods.push_back(absl::StrCat("/", name, "/", service->method(i)->name()));
    }
  }
  return methods;
}

absl::Status CheckEndpointsListed(const std::vector<std::string>& services, const EndpointTable& endpoints) {
  for (const std::string& method : MethodsOf(services)) {
    if (endpoints.Find(method) == nullptr) {
      return absl::InternalError(absl::StrCat(method, " has no row in the table of permissions"));
    }
  }
  return absl::OkStatus();
}

}  // namespace dunlin::server
