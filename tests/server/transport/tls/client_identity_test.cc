// SPDX-License-Identifier: Apache-2.0
#include "server/transport/tls/client_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/transport/tls/test_authority.h"

namespace dunlin::server {
namespace {

using testing::HasSubstr;

class ClientIdentityTest : public testing::Test {
 protected:
  absl::StatusOr<ClientIdentity> Read(const std::string& ca, const std::string& certificate, const std::string& key) {
    return ReadClientIdentity({"a.ca_file", ca}, {"a.cert_file", certificate}, {"a.key_file", key});
  }
  std::string FaultOf(const std::string& ca, const std::string& certificate, const std::string& key) {
    return std::string(Read(ca, certificate, key).status().message());
  }

  const TestFolder folder_;
  TestAuthority authority_{"authority"};
  const TestCertificate own_ = authority_.Issue("own");
  const std::string ca_ = folder_.Write("ca.pem", authority_.certificate());
  const std::string certificate_ = folder_.Write("own.pem", own_.certificate);
  const std::string key_ = folder_.Write("own.key", own_.key);
};

TEST_F(ClientIdentityTest, HoldsWhatTheFilesHold) {
  const auto identity = Read(ca_, certificate_, key_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->ca_pem, authority_.certificate());
  EXPECT_EQ(identity->certificate_pem, own_.certificate);
  EXPECT_EQ(identity->key_pem, own_.key);
  const auto none = Read("", "", "");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->ca_pem + none->certificate_pem + none->key_pem, "");
}

TEST_F(ClientIdentityTest, NamesKeyFileAndFault) {
  const std::string missing = folder_.path("missing.pem");
  EXPECT_THAT(FaultOf(missing, "", ""), HasSubstr("a.ca_file " + missing + ": No such file"));
  EXPECT_THAT(FaultOf(key_, "", ""), HasSubstr("a.ca_file " + key_ + ": has no certificate in PEM format"));
  EXPECT_THAT(FaultOf(ca_, certificate_, certificate_),
              HasSubstr("a.key_file " + certificate_ + ": has no private key"));
  const std::string other = folder_.Write("other.key", authority_.Issue("other").key);
  EXPECT_THAT(
      FaultOf(ca_, certificate_, other),
      HasSubstr("a.key_file " + other + ": not the key of the certificate in " + certificate_ + " (a.cert_file)"));
  const std::string encrypted = folder_.Write("encrypted.key", Encrypted(own_.key, "secret"));
  EXPECT_THAT(FaultOf(ca_, certificate_, encrypted), HasSubstr("without a passphrase"));
}

}  // namespace
}  // namespace dunlin::server
