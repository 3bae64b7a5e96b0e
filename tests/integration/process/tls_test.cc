// SPDX-License-Identifier: Apache-2.0
// The binary under TLS: `openssl s_client` against both ports, the client commands, certificates that change under a
// running server, and addresses that others can reach.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"
#include "tests/server/transport/tls/test_authority.h"
#include "tests/server/transport/tls/tls_client.h"

namespace dunlin::integration {
namespace {

using server::TestAuthority;
using server::TestCertificate;
using server::TestFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What s_client says of a handshake that did not come to its end; gRPC closes without an alert.
constexpr char kNoHandshake[] = ":SSL routines:";

class TlsProcess : public ::testing::Test {
 protected:
  TlsProcess() {
    ca_ = folder_.Write("ca.pem", authority_.certificate());
    Write(authority_.Issue("first.example"));
    const TestCertificate client = authority_.Issue("client");
    client_cert_ = folder_.Write("client.pem", client.certificate);
    client_key_ = folder_.Write("client.key", client.key);
  }
  void Write(const TestCertificate& own) const {
    folder_.Write("server.pem", own.certificate);
    folder_.Write("server.key", own.key);
  }
  std::vector<std::string> Settings(bool client_ca) const {
    std::vector<std::string> settings = {"--set", "tls.cert_file=" + folder_.path("server.pem"), "--set",
                                         "tls.key_file=" + folder_.path("server.key")};
    if (client_ca) settings.insert(settings.end(), {"--set", "tls.client_ca_file=" + ca_});
    return settings;
  }
  // What `openssl s_client` prints, connected to "127.0.0.1:PORT" with these further options.
  std::string SClient(const std::string& address, const std::string& options) const {
    const std::string command = "timeout 20 openssl s_client -connect " + address + " -CAfile " + ca_ +
                                " -verify_return_error -verify_hostname localhost " + options + " </dev/null 2>&1";
    FILE* const pipe = popen(command.c_str(), "r");
    std::string text;
    std::array<char, 4096> bytes;
    for (size_t count = 0; (count = fread(bytes.data(), 1, bytes.size(), pipe)) > 0;) text.append(bytes.data(), count);
    pclose(pipe);
    return text;
  }
  // From a client that does not mind which certificate it sees.
  static std::string Metrics(const ServerProcess& server) {
    server::TlsClient client(server.http(), server::TlsClientOptions());
    client.Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return client.ReadAll();
  }
  std::vector<std::string> Generate(const ServerProcess& server, const std::vector<std::string>& options) const {
    std::vector<std::string> all = {"generate",     "--address", server.grpc(), "--model",      "demo", "--json",
                                    "--max-tokens", "4",         "The",         "--timeout-ms", "20000"};
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }

  const TestFolder folder_;
  TestAuthority authority_{"authority"};
  std::string ca_;
  std::string client_cert_;
  std::string client_key_;
};

TEST_F(TlsProcess, SClientShakesHandsWithBothPorts) {
  const ServerProcess server(kDemo, Settings(false));
  ASSERT_TRUE(server.ready()) << server.Log();
  const struct {
    const std::string& address;
    const char* protocol;
  } ports[] = {{server.grpc(), "h2"}, {server.http(), "http/1.1"}};
  for (const auto& port : ports) {
    const std::string alpn = std::string("-alpn ") + port.protocol;
    EXPECT_THAT(SClient(port.address, "-tls1_2 " + alpn),
                AllOf(HasSubstr("Verification: OK"), HasSubstr("Protocol  : TLSv1.2"),
                      HasSubstr(std::string("ALPN protocol: ") + port.protocol), HasSubstr("CN = first.example"),
                      HasSubstr("Secure Renegotiation IS supported")));
    EXPECT_THAT(SClient(port.address, "-tls1_3 " + alpn), AllOf(HasSubstr("Verification: OK"), HasSubstr("TLSv1.3")));
    EXPECT_THAT(SClient(port.address, "-tls1_1 -cipher ALL:@SECLEVEL=0 " + alpn),
                AllOf(HasSubstr(kNoHandshake), Not(HasSubstr("first.example"))));
  }
}

TEST_F(TlsProcess, ClientCommandsSpeakTls) {
  const ServerProcess server(kDemo, Settings(false));
  ASSERT_TRUE(server.ready()) << server.Log();
  const std::string http = "https://" + server.http();
  const std::vector<std::string> ca = {"--tls-ca", ca_};
  const CommandResult generated = RunDunlin(Generate(server, ca));
  EXPECT_EQ(generated.status, 0) << generated.out << generated.err;
  EXPECT_EQ(RunDunlin(Generate(server, {"--tls-ca", ca_, "--tls-server-name", "first.example"})).status, 0);
  EXPECT_EQ(RunDunlin(Generate(server, {"--tls-ca", ca_, "--tls-server-name", "second.example"})).status, 1);
  EXPECT_EQ(RunDunlin(Generate(server, {"--tls"})).status, 1) << "the system does not trust the authority";
  EXPECT_EQ(RunDunlin(Generate(server, {})).status, 1) << "plain text";
  const CommandResult chat = RunDunlinWithInput(
      {"chat", "--address", server.grpc(), "--model", "demo", "--max-tokens", "4", "--tls-ca", ca_}, "Hello\n");
  EXPECT_EQ(chat.status, 0) << chat.err;
  const CommandResult load =
      RunDunlin({"load", "--address", server.grpc(), "--model", "demo", "--num-prompts", "8", "--concurrency", "2",
                 "--input-len", "4", "--output-len", "4", "--tls-ca", ca_, "--server-metrics", http, "--json", "-"});
  EXPECT_EQ(load.status, 0) << load.err;
  const auto result = nlohmann::json::parse(load.out, nullptr, false);
  EXPECT_EQ(result["completed"], 8) << load.out;
  // Over kept connections: more requests than streams.
  const CommandResult over_http =
      RunDunlin({"load", "--protocol", "openai", "--address", http, "--model", "demo", "--num-prompts", "8",
                 "--concurrency", "2", "--input-len", "4", "--output-len", "4", "--tls-ca", ca_, "--json", "-"});
  EXPECT_EQ(over_http.status, 0) << over_http.err;
  EXPECT_EQ(nlohmann::json::parse(over_http.out, nullptr, false)["completed"], 8) << over_http.out;
  const CommandResult strange =
      RunDunlin({"load", "--address", server.grpc(), "--model", "demo", "--num-prompts", "1", "--tls-ca", ca_,
                 "--server-metrics", "http://" + server.http(), "--json", "-"});
  EXPECT_EQ(strange.status, 1) << "http:// is plain text";
}

TEST_F(TlsProcess, FilesThatCannotBeUsedAreUsageErrors) {
  const std::string text = folder_.Write("text", "no certificate");
  const struct {
    std::vector<std::string> options;
    const char* message;
  } rows[] = {
      {{"--tls-ca", text + ".gone"}, "--tls-ca"},
      {{"--tls-ca", text}, "--tls-ca"},
      {{"--tls-ca", ca_, "--tls-cert", client_cert_}, "--tls-cert and --tls-key must be given together"},
      {{"--tls-ca", ca_, "--tls-cert", text, "--tls-key", client_key_}, "--tls-cert"},
      {{"--tls-ca", ca_, "--tls-cert", client_cert_, "--tls-key", text}, "--tls-key"},
      {{"--tls-ca", ca_, "--tls-cert", client_cert_, "--tls-key", folder_.path("server.key")}, "--tls-key"},
  };
  for (const auto& row : rows) {
    std::vector<std::string> all = {"healthcheck", "--address", "127.0.0.1:1"};
    all.insert(all.end(), row.options.begin(), row.options.end());
    const CommandResult result = RunDunlin(all);
    EXPECT_EQ(result.status, 2) << row.message;
    EXPECT_THAT(result.err, HasSubstr(row.message));
  }
}

// The command of an image's HEALTHCHECK stands fixed: the environment tells it the rest.
TEST_F(TlsProcess, HealthcheckTakesTlsFromTheEnvironment) {
  const ServerProcess server(kDemo, Settings(true));
  ASSERT_TRUE(server.ready()) << server.Log();
  const std::vector<std::string> command = {"healthcheck", "--address", server.grpc()};
  EXPECT_EQ(RunDunlin(command).status, 1);
  setenv("DUNLIN_TLS_CA", ca_.c_str(), 1);
  EXPECT_EQ(RunDunlin(command).status, 1) << "without a client certificate";
  setenv("DUNLIN_TLS_CERT", client_cert_.c_str(), 1);
  setenv("DUNLIN_TLS_KEY", client_key_.c_str(), 1);
  const CommandResult result = RunDunlin(command);
  for (const char* name : {"DUNLIN_TLS_CA", "DUNLIN_TLS_CERT", "DUNLIN_TLS_KEY"}) unsetenv(name);
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(result.out, "SERVING\n");
}

TEST_F(TlsProcess, ClientsWithoutACertificateAreRefusedWhereOneIsRequired) {
  const ServerProcess server(kDemo, Settings(true));
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_EQ(RunDunlin(Generate(server, {"--tls-ca", ca_})).status, 1);
  const CommandResult known =
      RunDunlin(Generate(server, {"--tls-ca", ca_, "--tls-cert", client_cert_, "--tls-key", client_key_}));
  EXPECT_EQ(known.status, 0) << known.out << known.err;
  for (const std::string& address : {server.grpc(), server.http()}) {
    EXPECT_THAT(SClient(address, "-tls1_2 -alpn h2,http/1.1"), HasSubstr(kNoHandshake));
    EXPECT_THAT(SClient(address, "-tls1_2 -alpn h2,http/1.1 -cert " + client_cert_ + " -key " + client_key_),
                AllOf(HasSubstr("Verification: OK"), Not(HasSubstr(kNoHandshake))));
  }
}

TEST_F(TlsProcess, ChangedFilesAreTakenWithoutARestart) {
  const ServerProcess server(kDemo, Settings(false));
  ASSERT_TRUE(server.ready()) << server.Log();
  Write(authority_.Issue("second.example", -3600, 3600 * 24 * 10));
  EXPECT_TRUE(ComesToLog(server, "tls: reloaded")) << server.Log();
  EXPECT_THAT(server.Log(), HasSubstr("warning tls: tls.cert_file " + folder_.path("server.pem") + " expires at"));
  for (const std::string& address : {server.grpc(), server.http()}) {
    EXPECT_THAT(SClient(address, ""), HasSubstr("CN = second.example"));
  }
  std::string metrics = Metrics(server);
  EXPECT_EQ(MetricValue(metrics, "dunlin_tls_reloads_total"), 1);
  EXPECT_NEAR(MetricValue(metrics, "dunlin_tls_certificate_expires_in_seconds"), 3600 * 24 * 10, 120);

  folder_.Write("server.pem", "nonsense");
  EXPECT_TRUE(ComesToLog(server, "tls: reload failed, the former certificate stays: tls.cert_file")) << server.Log();
  for (const std::string& address : {server.grpc(), server.http()}) {
    EXPECT_THAT(SClient(address, ""), HasSubstr("CN = second.example"));
  }
  EXPECT_EQ(MetricValue(Metrics(server), "dunlin_tls_reload_failures_total"), 1);
  server.Signal(SIGHUP);
  EXPECT_TRUE(ComesToLog(server, "reload: applied: nothing")) << server.Log();
  Write(authority_.Issue("third.example", -7200, -3600));
  EXPECT_TRUE(ComesToLog(server, "expired at")) << server.Log();
  EXPECT_LT(MetricValue(Metrics(server), "dunlin_tls_certificate_expires_in_seconds"), -3500);
}

TEST_F(TlsProcess, AStartWithABrokenCertificateIsRefused) {
  folder_.Write("server.key", authority_.Issue("other").key);
  std::vector<std::string> all = {
      "serve", "--config", kDemo, "--set", "listen.grpc=127.0.0.1:0", "--set", "listen.http=127.0.0.1:0"};
  const std::vector<std::string> settings = Settings(false);
  all.insert(all.end(), settings.begin(), settings.end());
  const CommandResult result = RunDunlin(all);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot start: tls.key_file"));
}

TEST_F(TlsProcess, AddressesThatOthersCanReachNeedTlsAndKeysOrAProxy) {
  const auto arguments = [](std::vector<std::string> more) {
    std::vector<std::string> all = {"--config", kDemo, "--set", "listen.http=127.0.0.1:0", "--grpc", "0.0.0.0:0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  std::vector<std::string> plain = arguments({});
  plain.insert(plain.begin(), "serve");
  const CommandResult refused = RunDunlin(plain);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("listen.grpc is \"0.0.0.0:0\", which other machines can reach, without TLS"),
                                 HasSubstr("access.behind_proxy")));
  {
    const ServerProcess server(ServerProcess::Arguments{arguments({"--behind-proxy"})});
    ASSERT_TRUE(server.ready()) << server.Log();
    EXPECT_THAT(server.Log(),
                HasSubstr("reachable from other machines without TLS and keys; access.behind_proxy says"));
  }
  folder_.Write("keys.json", R"({"keys": []})");
  std::vector<std::string> protected_by = Settings(false);
  protected_by.insert(protected_by.end(), {"--set", "access.keys_file=" + folder_.path("keys.json")});
  const ServerProcess server(ServerProcess::Arguments{arguments(protected_by)});
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_THAT(server.Log(), Not(HasSubstr("reachable from other machines")));
}

}  // namespace
}  // namespace dunlin::integration
