// SPDX-License-Identifier: Apache-2.0
// What a caller may do, and what each RPC and route asks for. Who serves an endpoint has its row: the front ends
// (fronts/front.h), and the transports for their own. An endpoint without a row is an error at start
// (http_calls/route_guard, transport/grpc/call_access), so that nothing is served that nobody has decided on.
// Plain data and pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

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

// Of an Endpoint that needs no key.
inline constexpr std::optional<Permission> kOpenToAll = std::nullopt;

// Endpoints by name. Const after construction.
class EndpointTable {
 public:
  EndpointTable() = default;
  // REQUIRES: the names differ.
  explicit EndpointTable(std::vector<Endpoint> rows);

  // Null if it has no row.
  const Endpoint* Find(std::string_view name) const;
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }

 private:
  std::vector<Endpoint> rows_;  // in the order of their names
};

}  // namespace dunlin::server
