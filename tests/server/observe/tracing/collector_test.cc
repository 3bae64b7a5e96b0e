// SPDX-License-Identifier: Apache-2.0
// The exporter with a collector over gRPC: one that is there, away, comes back, hangs and refuses.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/observe/tracing/otlp_client.h"
#include "server/observe/tracing/span_exporter.h"
#include "tests/server/observe/tracing/fake_collector.h"
#include "tests/server/transport/tls/test_authority.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

std::unique_ptr<SpanExporter> ExporterTo(const std::string& address, absl::Duration timeout = absl::Seconds(10),
                                         std::optional<ClientIdentity> tls = std::nullopt) {
  OtlpClientOptions client;
  client.address = address;
  client.tls = std::move(tls);
  client.timeout = timeout;
  client.min_backoff = client.max_backoff = absl::Milliseconds(20);
  SpanExporterOptions options;
  options.batch_delay = absl::Milliseconds(1);
  options.min_backoff = absl::Milliseconds(5);
  options.max_backoff = absl::Milliseconds(100);
  return std::make_unique<SpanExporter>(options, NewOtlpClient(client));
}

void EndCall(SpanExporter* exporter) {
  RequestRecord record;
  record.request_id = "r";
  record.arrival = record.finished = MonotonicNs();
  record.trace.emplace();
  exporter->OnFinished(record);
}

TEST(Collector, TakesSpans) {
  FakeCollector collector;
  const auto exporter = ExporterTo(collector.address());
  EndCall(exporter.get());
  EXPECT_EQ(collector.WaitFor(1).size(), 1U);
  ASSERT_TRUE(exporter->Flush(kPatience));
  EXPECT_EQ(exporter->counts().exported, 1U);
  collector.Reject(1);
  EndCall(exporter.get());
  EndCall(exporter.get());
  ASSERT_TRUE(exporter->Flush(kPatience));
  EXPECT_GE(exporter->counts().dropped, 1U);
  EXPECT_EQ(exporter->counts().exported + exporter->counts().dropped, 3U);
}

// Spans that a collector which asks for a client's certificate has taken from an exporter.
uint64_t SpansTakenOverTls(const TestAuthority& authority, const TestCertificate& server, ClientIdentity identity) {
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = authority.certificate();
  options.pem_key_cert_pairs = {{server.key, server.certificate}};
  FakeCollector collector(0, grpc::SslServerCredentials(options));
  const auto exporter = ExporterTo(collector.address(), absl::Seconds(2), std::move(identity));
  EndCall(exporter.get());
  EXPECT_TRUE(exporter->Flush(kPatience));
  return exporter->counts().exported;
}

TEST(Collector, MayAskForTlsAndACertificate) {
  TestAuthority authority("authority");
  TestAuthority stranger("stranger");
  const TestCertificate server = authority.Issue("collector");
  const TestCertificate own = authority.Issue("dunlin");
  const TestCertificate other = stranger.Issue("dunlin");
  const std::string& ca = authority.certificate();
  EXPECT_EQ(SpansTakenOverTls(authority, server, {ca, own.certificate, own.key}), 1U);
  EXPECT_EQ(SpansTakenOverTls(authority, server, {ca, "", ""}), 0U) << "no certificate";
  EXPECT_EQ(SpansTakenOverTls(authority, server, {ca, other.certificate, other.key}), 0U) << "a stranger's";
  EXPECT_EQ(SpansTakenOverTls(authority, server, {stranger.certificate(), own.certificate, own.key}), 0U)
      << "the collector is a stranger";
  EXPECT_EQ(SpansTakenOverTls(authority, server, {"", own.certificate, own.key}), 0U)
      << "the system does not know its authority";
}

TEST(Collector, ThatIsAwayCostsSpansAndNoTime) {
  int port = 0;
  { port = FakeCollector().port(); }
  const auto exporter = ExporterTo(absl::StrCat("127.0.0.1:", port));
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 100; ++i) EndCall(exporter.get());
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  EXPECT_TRUE(exporter->Flush(kPatience)) << "a connection that is refused is known at once";
  EXPECT_EQ(exporter->counts().dropped, 100U);
}

TEST(Collector, ThatComesBackIsFoundAgain) {
  int port = 0;
  std::unique_ptr<SpanExporter> exporter;
  {
    FakeCollector first;
    port = first.port();
    exporter = ExporterTo(first.address());
    EndCall(exporter.get());
    first.WaitFor(1);
  }
  ASSERT_TRUE(exporter->Flush(kPatience));
  EndCall(exporter.get());
  EXPECT_TRUE(exporter->Flush(kPatience)) << "nobody listens: the span is dropped";
  EXPECT_EQ(exporter->counts().dropped, 1U);
  FakeCollector second(port);
  for (const absl::Time begin = absl::Now(); exporter->counts().exported < 2 && absl::Now() - begin < kPatience;) {
    EndCall(exporter.get());
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_GE(second.WaitFor(1).size(), 1U);
}

TEST(Collector, ThatHangsIsGivenUpAfterItsTime) {
  FakeCollector collector;
  collector.Hang(true);
  const auto exporter = ExporterTo(collector.address(), absl::Milliseconds(50));
  EndCall(exporter.get());
  EXPECT_TRUE(collector.WaitForCalls(2)) << "the batch is sent again";
  collector.Hang(false);
  EXPECT_EQ(collector.WaitFor(1).size(), 1U);
}

TEST(Collector, ThatHangsDoesNotHoldTheEndUp) {
  FakeCollector collector;
  collector.Hang(true);
  auto exporter = ExporterTo(collector.address());
  EndCall(exporter.get());
  ASSERT_TRUE(collector.WaitForCalls(1));
  EXPECT_FALSE(exporter->Flush(absl::Milliseconds(50)));
  const absl::Time begin = absl::Now();
  exporter.reset();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
}

TEST(Collector, ThatRefusesIsNotAskedAgain) {
  FakeCollector collector;
  collector.Answer({grpc::StatusCode::INVALID_ARGUMENT, "no"});
  const auto exporter = ExporterTo(collector.address());
  EndCall(exporter.get());
  ASSERT_TRUE(collector.WaitForCalls(1));
  ASSERT_TRUE(exporter->Flush(kPatience));
  EXPECT_EQ(exporter->counts().dropped, 1U);
}

}  // namespace
}  // namespace dunlin::server
