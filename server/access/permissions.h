// SPDX-License-Identifier: Apache-2.0
// What a caller may do, and what each RPC and route asks for: the one table of all endpoints. An endpoint without a row
// is an error at start (http_calls/route_guard), so that nothing is served that nobody has decided on.
// Plain data and pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace dunlin::server {

enum class Permission : uint8_t { kInfer, kMetrics, kAdmin };
inline constexpr size_t kNumPermissions = 3;

struct PermissionTraits {
  Permission permission;
  const char* name;  // in key files and messages
};
inline constexpr PermissionTraits kPermissionTable[kNumPermissions] = {
    {Permission::kInfer, "infer"},
    {Permission::kMetrics, "metrics"},
    {Permission::kAdmin, "admin"},
};

constexpr const char* Name(Permission permission) {
  return kPermissionTable[static_cast<size_t>(permission)].name;
}

struct Endpoint {
  const char* name;                  // "/package.Service/Method" of gRPC, "GET /path" of HTTP
  std::optional<Permission> needed;  // empty: open to everybody, without a key
};

std::span<const Endpoint> Endpoints();

// Null if it has no row.
const Endpoint* FindEndpoint(std::string_view name);

}  // namespace dunlin::server
