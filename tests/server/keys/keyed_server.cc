// SPDX-License-Identifier: Apache-2.0
#include "tests/server/keys/keyed_server.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dunlin::server {

std::string KeyEntry(const std::string& name, const std::string& fields) {
  return absl::StrCat(R"({"name": ")", name, R"(", "hashes": [")", DigestText(DigestOf("key-" + name)), "\"], ", fields,
                      "}");
}

std::string FullKeyEntry(const std::string& name) {
  return KeyEntry(name, R"("permissions": ["infer", "metrics", "admin"], "models": ["*"])");
}

KeyedServer::KeyedServer(const std::vector<std::string>& entries, const Limits& limits) {
  SetKeys(entries);
  EdgeServerOptions options;
  options.limits = limits;
  options.server.serving.access = &access_;
  options.server.reflection = true;
  options.server.http.emplace();
  options.server.http->address = "127.0.0.1:0";
  options.server.http->sources = {[] { return std::string("metric 1\n"); }, [] { return std::string(); },
                                  [] { return std::string(); }};
  edge_ = std::make_unique<EdgeServer>(std::move(options));
}

void KeyedServer::SetKeys(const std::vector<std::string>& entries) {
  auto keys = KeySet::Parse(absl::StrCat(R"({"keys": [)", absl::StrJoin(entries, ", "), "]}"), "test");
  ASSERT_TRUE(keys.ok()) << keys.status();
  access_.Use(*std::move(keys));
}

EdgeServer::Setup KeyedServer::As(const std::string& name) {
  return [name](grpc::ClientContext* context) { context->AddMetadata("authorization", "Bearer key-" + name); };
}

std::string KeyedServer::Http(const std::string& method, const std::string& path, const std::string& headers,
                              const std::string& body) {
  RawClient client(edge_->server().http_address());
  const std::string length = method == "POST" ? absl::StrCat("Content-Length: ", body.size(), "\r\n") : "";
  client.Send(absl::StrCat(method, " ", path, " HTTP/1.1\r\nConnection: close\r\n", length, headers, "\r\n", body));
  return client.ReadAll();
}

std::vector<std::string> KeyedServer::denials() const {
  const absl::MutexLock lock(&mutex_);
  return denials_;
}

void KeyedServer::OnDenied(const AccessDenial& denial) {
  EXPECT_NE(denial.peer, "");
  const absl::MutexLock lock(&mutex_);
  denials_.push_back(
      absl::StrCat(std::string(denial.key), " ", std::string(denial.endpoint), " ", std::string(denial.reason)));
}

}  // namespace dunlin::server
