// SPDX-License-Identifier: Apache-2.0
// Keys of what faces the network: bounds, TLS, exposure, KV events, tracing.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "server/config/validate.h"
#include "tests/server/config/config_fixture.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;

// The struct's own defaults, which tests use, are those of the table; each key reaches its own field.
TEST_F(ConfigTest, BoundsOfTheEdgeAreKeys) {
  const auto defaults = Load(kSmallest);
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  const Limits own;
  const auto bounds = [](const Limits& limits) {
    return std::vector<int64_t>{limits.max_connections,
                                limits.max_connections_per_address,
                                limits.max_message_memory_bytes,
                                limits.max_connection_age_ms,
                                limits.max_connection_age_grace_ms,
                                limits.max_ping_strikes,
                                limits.max_tokenising_bytes,
                                limits.slow_reader_timeout_ms,
                                limits.handshake_timeout_ms,
                                limits.max_abandoned_calls_per_second};
  };
  EXPECT_EQ(bounds(defaults->limits), bounds(own));
  const auto set = Load(
      kSmallest,
      {"limits.max_connections=1", "limits.max_connections_per_address=2", "limits.max_message_memory_bytes=30000000",
       "limits.max_connection_age_ms=4", "limits.max_connection_age_grace_ms=5000", "limits.max_ping_strikes=6",
       "limits.max_tokenising_bytes=70000", "limits.slow_reader_timeout_ms=800", "limits.handshake_timeout_ms=900",
       "limits.max_abandoned_calls_per_second=70", "limits.max_http_connections_per_address=9"});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(bounds(set->limits), (std::vector<int64_t>{1, 2, 30000000, 4, 5000, 6, 70000, 800, 900, 70}));
  EXPECT_EQ(set->max_http_connections_per_address, 9);
}

// A section with a switch may be given as the switch.
TEST_F(ConfigTest, TheOpenAiProtocolIsASwitchOrASection) {
  struct Case {
    const char* protocols;
    std::vector<std::string> overrides;
    bool serves;
    bool strict;
  };
  const Case cases[] = {
      {"{}", {}, true, false},
      {R"({"openai": false})", {}, false, false},
      {R"({"openai": {"strict": true}})", {}, true, true},
      {R"({"openai": {"enabled": false, "strict": true}})", {}, false, true},
      {R"({"openai": true})", {"protocols.openai.strict=true"}, true, true},
      {R"({"openai": {"strict": true}})", {"protocols.openai=false"}, false, false},
      {"{}", {"protocols.openai=false", "protocols.openai.enabled=true"}, true, false},
  };
  for (const Case& c : cases) {
    const auto config = Load(
        absl::StrCat(R"({"models": [{"name": "m", "path": "here"}], "protocols": )", c.protocols, "}"), c.overrides);
    ASSERT_TRUE(config.ok()) << c.protocols << config.status();
    EXPECT_EQ(config->values.at("protocols.openai.enabled"), c.serves ? "true" : "false") << c.protocols;
    EXPECT_EQ(config->values.at("protocols.openai.strict"), c.strict ? "true" : "false") << c.protocols;
  }
  EXPECT_THAT(std::string(Load(kSmallest, {"protocols.openai=1"}).status().message()),
              HasSubstr("protocols.openai is 1; limit is an object"));
  EXPECT_THAT(std::string(Load(kSmallest, {"protocols.openai.strict=1"}).status().message()),
              HasSubstr("protocols.openai.strict is 1; limit is true or false"));
}

TEST_F(ConfigTest, ReadsTlsFilesRelativeToTheFile) {
  const auto config = Load(R"({"models": [{"name": "m", "path": "here"}],
      "tls": {"cert_file": "server.pem", "key_file": "/keys/server.key", "client_ca_file": "ca/clients.pem"}})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->tls.cert_file, folder_ + "/server.pem");
  EXPECT_EQ(config->tls.key_file, "/keys/server.key");
  EXPECT_EQ(config->tls.client_ca_file, folder_ + "/ca/clients.pem");
  EXPECT_TRUE(config->tls.require_client_certificate);
  EXPECT_FALSE(Load(kSmallest, {"tls.cert_file=a", "tls.key_file=b", "tls.require_client_certificate=false"})
                   ->tls.require_client_certificate);
  EXPECT_THAT(std::string(Load(kSmallest, {"tls.cert_file=a"}).status().message()),
              HasSubstr("tls.cert_file and tls.key_file must be given together"));
  EXPECT_THAT(std::string(Load(kSmallest, {"tls.client_ca_file=a"}).status().message()),
              HasSubstr("tls.client_ca_file must be given with tls.cert_file"));
}

TEST_F(ConfigTest, AddressesThatOthersCanReachNeedTlsAndKeysOrAProxy) {
  for (const char* key : {"listen.grpc", "listen.http"}) {
    const std::string address = absl::StrCat(key, "=0.0.0.0:1");
    EXPECT_THAT(std::string(Load(kSmallest, {address}).status().message()),
                testing::AllOf(HasSubstr(absl::StrCat(key, " is \"0.0.0.0:1\"")), HasSubstr("tls.cert_file"),
                               HasSubstr("access.behind_proxy")));
    EXPECT_TRUE(Load(kSmallest, {address, "access.behind_proxy=true"}).ok());
    EXPECT_THAT(std::string(Load(kSmallest, {address, "tls.cert_file=a", "tls.key_file=b"}).status().message()),
                HasSubstr("without keys (access.keys_file)"));
    EXPECT_THAT(std::string(Load(kSmallest, {address, "access.keys_file=c"}).status().message()),
                HasSubstr("without TLS (tls.cert_file, tls.key_file);"));
    EXPECT_TRUE(Load(kSmallest, {address, "tls.cert_file=a", "tls.key_file=b", "access.keys_file=c"}).ok());
  }
}

TEST(CheckExposure, SaysWhatIsMissing) {
  const auto error = [](const char* address, const Protection& protection) {
    return std::string(CheckExposure("listen.grpc", address, protection).message());
  };
  for (const char* address : {"127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/run/socket"}) {
    EXPECT_EQ(error(address, {}), "") << address;
  }
  for (const char* address : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "server.example:1"}) {
    EXPECT_THAT(error(address, {}), HasSubstr("without TLS (tls.cert_file, tls.key_file) and without keys")) << address;
    EXPECT_THAT(error(address, {.has_tls = true}), HasSubstr("reach, without keys (access.keys_file);")) << address;
    EXPECT_THAT(error(address, {.has_keys = true}), HasSubstr("reach, without TLS (tls.cert_file, tls.key_file);"));
    EXPECT_EQ(error(address, {.has_tls = true, .has_keys = true}), "") << address;
    EXPECT_EQ(error(address, {.behind_proxy = true}), "") << address;
  }
  EXPECT_EQ(error("0.0.0.0", {}), "listen.grpc is \"0.0.0.0\"; limit is HOST:PORT");
}

TEST_F(ConfigTest, KvEventsArePublishedOnLoopbackUnlessToldOtherwise) {
  const std::string batches = "models.0.kv_cache.event_batches=100";
  const std::string endpoint = "models.0.kv_cache.events_endpoint=";
  const auto config = Load(kSmallest, {batches, endpoint + "tcp://127.0.0.1:5557"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->models[0].engine.kv_events.max_batches, 100);
  EXPECT_EQ(config->models[0].kv_events.endpoint, "tcp://127.0.0.1:5557");
  EXPECT_TRUE(Load(kSmallest, {batches, endpoint + "ipc:///run/events"}).ok());
  for (const char* key : {"events_endpoint", "events_replay_endpoint"}) {
    const std::string exposed = absl::StrCat("models.0.kv_cache.", key, "=tcp://*:5557");
    const std::vector<std::string> overrides = {batches, endpoint + "tcp://127.0.0.1:5557", exposed};
    EXPECT_THAT(std::string(Load(kSmallest, overrides).status().message()), HasSubstr(key));
    EXPECT_TRUE(Load(kSmallest, {batches, endpoint + "tcp://127.0.0.1:1", exposed, "access.behind_proxy=true"}).ok());
  }
  EXPECT_THAT(std::string(Load(kSmallest, {endpoint + "tcp://127.0.0.1:1"}).status().message()),
              HasSubstr("kv_cache.event_batches is 0"));
  EXPECT_THAT(std::string(Load(kSmallest, {batches, endpoint + "127.0.0.1:1"}).status().message()),
              HasSubstr("limit is tcp://ADDRESS:PORT or ipc://PATH"));
  EXPECT_THAT(
      std::string(Load(kSmallest, {"models.0.kv_cache.events_replay_endpoint=tcp://127.0.0.1:1"}).status().message()),
      HasSubstr("events_endpoint must be given"));
}

TEST_F(ConfigTest, TracesWhereACollectorIsNamed) {
  EXPECT_EQ(Load(kSmallest)->tracing.otlp_endpoint, "") << "off by default";
  EXPECT_EQ(Load(kSmallest, {"tracing.otlp_endpoint=collector:4317"})->tracing.otlp_endpoint, "collector:4317");
  const auto config =
      Load(kSmallest, {"tracing.otlp_endpoint=http://[::1]:4317", "tracing.service_name=s",
                       "tracing.sample_per_million=7", "tracing.queue_spans=8", "tracing.export_timeout_ms=900"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->tracing.otlp_endpoint, "[::1]:4317");
  EXPECT_FALSE(config->tracing.tls);
  EXPECT_EQ(config->tracing.service_name, "s");
  EXPECT_EQ(config->tracing.sample_per_million, 7);
  EXPECT_EQ(config->tracing.queue_spans, 8);
  EXPECT_EQ(config->tracing.export_timeout_ms, 900);
  const auto tls = Load(R"({"models": [{"name": "m", "path": "here"}],
      "tracing": {"otlp_endpoint": "https://collector:4317", "ca_file": "ca.pem", "cert_file": "own.pem",
                  "key_file": "/keys/own.key"}})");
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_TRUE(tls->tracing.tls);
  EXPECT_EQ(tls->tracing.otlp_endpoint, "collector:4317");
  EXPECT_EQ(tls->tracing.ca_file, folder_ + "/ca.pem");
  EXPECT_EQ(tls->tracing.cert_file, folder_ + "/own.pem");
  EXPECT_EQ(tls->tracing.key_file, "/keys/own.key");
}

}  // namespace
}  // namespace dunlin::server
