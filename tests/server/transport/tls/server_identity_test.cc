// SPDX-License-Identifier: Apache-2.0
// Which files make an identity, and what is said of the others.
#include "server/transport/tls/server_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "tests/server/transport/tls/test_authority.h"

namespace dunlin::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ServerIdentityTest : public ::testing::Test {
 protected:
  ServerIdentityTest() {
    const TestCertificate own = authority_.Issue("server");
    files_.certificate = folder_.Write("server.pem", own.certificate);
    files_.key = folder_.Write("server.key", own.key);
    files_.client_ca = folder_.Write("ca.pem", authority_.certificate());
  }
  std::string ErrorOf(const TlsFiles& files) const {
    return std::string(ReadServerIdentity(files, "http/1.1").status().message());
  }

  const TestFolder folder_;
  TestAuthority authority_{"authority"};
  TlsFiles files_;
};

TEST_F(ServerIdentityTest, HasWhatTheFilesHold) {
  const auto identity = ReadServerIdentity(files_, "http/1.1");
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_THAT((*identity)->certificate_pem, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_THAT((*identity)->key_pem, HasSubstr("PRIVATE KEY"));
  EXPECT_EQ((*identity)->client_ca_pem, authority_.certificate());
  SSL_CTX* const context = (*identity)->context.get();
  EXPECT_EQ(SSL_CTX_get_min_proto_version(context), TLS1_2_VERSION);
  EXPECT_EQ(SSL_CTX_get_verify_mode(context), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
  EXPECT_NE(SSL_CTX_get_options(context) & SSL_OP_NO_RENEGOTIATION, 0U);
}

TEST_F(ServerIdentityTest, ClientCertificatesAreRequiredOnlyIfAskedFor) {
  files_.require_client_certificate = false;
  EXPECT_EQ(SSL_CTX_get_verify_mode((*ReadServerIdentity(files_, "x"))->context.get()), SSL_VERIFY_PEER);
  files_.client_ca.clear();
  EXPECT_EQ(SSL_CTX_get_verify_mode((*ReadServerIdentity(files_, "x"))->context.get()), SSL_VERIFY_NONE);
}

// The first certificate of a chain to end, or the last to begin, decides.
TEST_F(ServerIdentityTest, TimesAreThoseOfTheWholeChain) {
  TestAuthority root("root");
  const TestCertificate own = authority_.Issue("server", -100, 1000);
  const TestCertificate other = root.Issue("intermediate", -50, 500);
  files_.certificate = folder_.Write("chain.pem", own.certificate + other.certificate);
  files_.key = folder_.Write("chain.key", own.key);
  const auto identity = ReadServerIdentity(files_, "http/1.1");
  ASSERT_TRUE(identity.ok()) << identity.status();
  const absl::Duration left = (*identity)->expires - absl::Now();
  EXPECT_GT(left, absl::Seconds(400));
  EXPECT_LE(left, absl::Seconds(500));
  const absl::Duration since = absl::Now() - (*identity)->valid_from;
  EXPECT_GE(since, absl::Seconds(49));
  EXPECT_LT(since, absl::Seconds(90));
}

TEST_F(ServerIdentityTest, FaultsNameKeyFileAndReason) {
  const TestCertificate other = authority_.Issue("other");
  const std::string pem = authority_.certificate();
  const struct {
    const char* what;
    std::function<void(TlsFiles*)> change;
    const char* key;
    const char* reason;
  } rows[] = {
      {"no certificate", [](TlsFiles* f) { f->certificate += ".gone"; }, "tls.cert_file", "No such file"},
      {"no key", [](TlsFiles* f) { f->key += ".gone"; }, "tls.key_file", "No such file"},
      {"no client CA", [](TlsFiles* f) { f->client_ca += ".gone"; }, "tls.client_ca_file", "No such file"},
      {"a folder", [this](TlsFiles* f) { f->key = folder_.path("."); }, "tls.key_file", "not a regular file"},
      {"empty", [this](TlsFiles* f) { f->certificate = folder_.Write("x", ""); }, "tls.cert_file",
       "has no certificate"},
      {"text", [this](TlsFiles* f) { f->key = folder_.Write("x", "a key\n"); }, "tls.key_file", "has no private key"},
      {"zero bytes", [&](TlsFiles* f) { f->certificate = folder_.Write("x", pem + std::string(3, '\0')); },
       "tls.cert_file", "not a PEM file"},
      {"cut off", [&](TlsFiles* f) { f->certificate = folder_.Write("x", pem.substr(0, pem.size() / 2)); },
       "tls.cert_file", "bad end line"},
      {"bad base64", [&](TlsFiles* f) { f->client_ca = folder_.Write("x", std::string(pem).replace(60, 3, "!!!")); },
       "tls.client_ca_file", "bad base64"},
      {"large", [this](TlsFiles* f) { f->key = folder_.Write("x", std::string((1 << 20) + 1, 'x')); }, "tls.key_file",
       "has 1048577 bytes; limit is 1048576"},
      {"another key", [&](TlsFiles* f) { f->key = folder_.Write("x", other.key); }, "tls.key_file",
       "not the key of the certificate in"},
      {"passphrase", [&](TlsFiles* f) { f->key = folder_.Write("x", Encrypted(other.key, "word")); }, "tls.key_file",
       "without a passphrase"},
  };
  for (const auto& row : rows) {
    TlsFiles files = files_;
    row.change(&files);
    EXPECT_THAT(ErrorOf(files), AllOf(HasSubstr(row.key), HasSubstr(row.reason))) << row.what;
  }
}

}  // namespace
}  // namespace dunlin::server
