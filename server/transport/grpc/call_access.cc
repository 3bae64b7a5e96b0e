// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/call_access.h"

#include <google/protobuf/descriptor.h>

#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/serving/authorize.h"

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

absl::StatusOr<Principal> CallerOf(const AccessControl& access, const char* method,
                                   const grpc::CallbackServerContext& context) {
  if (!access.enabled()) return Principal();
  return Authorize(access, method, PresentedKey(context), [&context] { return context.peer(); });
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

absl::Status CheckEndpointsListed(const std::vector<std::string>& services) {
  for (const std::string& method : MethodsOf(services)) {
    if (FindEndpoint(method) == nullptr) {
      return absl::InternalError(absl::StrCat(method, " has no row in the table of permissions"));
    }
  }
  return absl::OkStatus();
}

}  // namespace dunlin::server
