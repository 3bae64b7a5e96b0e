// SPDX-License-Identifier: Apache-2.0
// An Edge with keys, over gRPC and HTTP: every key of the file is "key-NAME" of the entry NAME.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/access/access_control.h"
#include "server/edge/endpoints.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::server {

// Whether an endpoint is a method of gRPC; else it is an HTTP route.
inline bool IsRpc(const Endpoint& endpoint) {
  return endpoint.name[0] == '/';
}

// Entries for SetKeys: `"name": ..., "hashes": [...]` of the name, and `fields`.
std::string KeyEntry(const std::string& name, const std::string& fields);
// The same with all permissions and models.
std::string FullKeyEntry(const std::string& name);

class KeyedServer : public AccessObserver {
 public:
  explicit KeyedServer(const std::vector<std::string>& entries, const Limits& limits = {});

  // These keys are in force from now on.
  void SetKeys(const std::vector<std::string>& entries);
  EdgeServer& edge() { return *edge_; }
  AccessControl& access() { return access_; }

  // Adds "authorization: Bearer key-NAME" to a call.
  static EdgeServer::Setup As(const std::string& name);
  // One HTTP call on a connection of its own, with these further header lines; everything that comes back.
  std::string Http(const std::string& method, const std::string& path, const std::string& headers,
                   const std::string& body = "");
  static std::string HeaderAs(const std::string& name) { return "Authorization: Bearer key-" + name + "\r\n"; }

  // "key endpoint reason" of every refusal so far.
  std::vector<std::string> denials() const;

 private:
  void OnDenied(const AccessDenial& denial) override;

  mutable absl::Mutex mutex_;  // guards denials_
  std::vector<std::string> denials_ ABSL_GUARDED_BY(mutex_);
  AccessControl access_{this};
  std::unique_ptr<EdgeServer> edge_;
};

}  // namespace dunlin::server
