// SPDX-License-Identifier: Apache-2.0
// Plays the table of refusals (row.h): each row gets its exact answer, a neighbour's stream stays what it is alone, and
// after each group the server holds what it held before.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "google/rpc/error_details.pb.h"
#include "tests/integration/refusals/attacked_server.h"
#include "tests/integration/refusals/neighbour.h"
#include "tests/integration/refusals/raw_connection.h"
#include "tests/integration/refusals/requests.h"
#include "tests/integration/refusals/row.h"

namespace dunlin::integration {
namespace {

// What fragments of the allocator's arenas and gRPC's own buffers may take.
constexpr size_t kMemoryBound = size_t{32} << 20;
constexpr std::chrono::milliseconds kLongestGap(4000);
constexpr std::chrono::milliseconds kSilence(500);
constexpr std::chrono::milliseconds kLongestAnswer(10000);
constexpr char kLimitWords[] = "; limit is ";

// Whether the message is as the row has it, with digits for each '~'.
bool Matches(const std::string& pattern, const std::string& message) {
  size_t at = 0;
  for (const char c : pattern) {
    if (c != '~') {
      if (at >= message.size() || message[at++] != c) return false;
      continue;
    }
    const size_t begin = at;
    while (at < message.size() && std::isdigit(static_cast<unsigned char>(message[at])) != 0) ++at;
    if (at == begin) return false;
  }
  return at == message.size();
}

bool IsOneOf(const std::string& outcomes, const std::string& outcome) {
  const std::vector<std::string> patterns = absl::StrSplit(outcomes, '|');
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) { return Matches(pattern, outcome); });
}

// What a message says of the limit.
std::string LimitIn(const std::string& message) {
  const size_t at = message.find(kLimitWords);
  return at == std::string::npos ? "" : message.substr(at + std::strlen(kLimitWords));
}

void ExpectDetails(const Answer& expected, const Reply& reply) {
  if (expected.reason.empty()) {
    EXPECT_EQ(reply.details.details_size(), 0) << reply.details.ShortDebugString();
    return;
  }
  EXPECT_EQ(reply.details.code(), static_cast<int>(expected.code));
  EXPECT_EQ(reply.details.message(), reply.status.error_message());
  google::rpc::ErrorInfo info;
  EXPECT_TRUE(reply.Get(&info));
  EXPECT_EQ(info.reason(), expected.reason);
  EXPECT_EQ(info.domain(), "dunlin");
  if (expected.reason == "INVALID_FIELD") {
    const auto limit = info.metadata().find("limit");
    EXPECT_EQ(limit == info.metadata().end() ? "" : limit->second, LimitIn(reply.status.error_message()));
  }
  google::rpc::BadRequest bad;
  if (reply.Get(&bad)) {
    EXPECT_EQ(bad.field_violations_size(), 1);
    EXPECT_EQ(bad.field_violations(0).description(), reply.status.error_message());
    EXPECT_EQ(info.metadata().at("field"), expected.field);
  }
  EXPECT_EQ(bad.field_violations_size() == 1 ? bad.field_violations(0).field() : "", expected.field);
  google::rpc::QuotaFailure quota;
  reply.Get(&quota);
  EXPECT_EQ(quota.violations_size() == 1 ? quota.violations(0).subject() : "", expected.config_key);
  google::rpc::RetryInfo retry;
  const bool retries = expected.retry_info || !expected.config_key.empty();
  EXPECT_EQ(reply.Get(&retry), retries);
  EXPECT_EQ(reply.has_pushback, retries);
  google::rpc::ResourceInfo resource;
  reply.Get(&resource);
  EXPECT_EQ(resource.resource_name(), expected.resource);
  google::rpc::PreconditionFailure precondition;
  reply.Get(&precondition);
  EXPECT_GE(precondition.violations_size(), expected.num_preconditions);
  EXPECT_EQ(precondition.violations_size() > 0, expected.num_preconditions > 0);
}

// The end of a deadline is told by the client's gRPC, or by the server when that is first.
Answer OfDeadline(const Answer& answer, const Reply& reply) {
  if (answer.code != grpc::StatusCode::DEADLINE_EXCEEDED || reply.details.details_size() == 0) return answer;
  return {.code = answer.code, .message = "the deadline passed before the output was complete", .reason = "DEADLINE"};
}

// The call of a client that does not read even its status is cut off, which cannot carry details (CallCutOff): of a
// client that begins to read at about that time either comes first.
Answer OfSlowReader(const Answer& answer, const Reply& reply) {
  if (answer.reason != "SLOW_READER" || reply.details.details_size() > 0) return answer;
  return OfGrpc(answer.code, answer.message);
}

void ExpectAnswer(const Answer& answer, const Reply& reply) {
  const Answer expected = OfSlowReader(OfDeadline(answer, reply), reply);
  const std::string& message = reply.status.error_message();
  EXPECT_EQ(reply.status.error_code(), expected.code) << message;
  EXPECT_TRUE(Matches(expected.message, message)) << "is:     " << message << "\nmust be: " << expected.message;
  EXPECT_EQ(message.find(DUNLIN_SOURCE_DIR), std::string::npos) << "a path";
  EXPECT_EQ(message.find("0x7f"), std::string::npos) << "an address";
  ExpectDetails(expected, reply);
}

// A server with one config. The rows that are served have been played once, so that its threads and caches are there.
struct Attacked {
  explicit Attacked(const std::string& config) : server(config) {
    if (!server.process().ready()) {
      ADD_FAILURE() << server.process().Log();
      return;
    }
    neighbour = std::make_unique<Neighbour>(server.process().grpc());
    for (const Group& group : Groups()) {
      if (group.config != config) continue;
      for (const CallRow& row : group.calls) {
        if (row.answer.code == grpc::StatusCode::OK) server.Play(row.sent);
      }
    }
    EXPECT_EQ(server.WaitUntilIdle(), "");
    before = server.held();
    std::cout << config << ": resident MiB " << (before.resident_bytes >> 20) << ", " << before.threads << " threads, "
              << before.grpc_threads << " of gRPC, " << before.descriptors << " descriptors\n";
  }
  std::string Connect(const ConnectionRow& row) {
    const std::string& address = row.port == Port::kGrpc ? server.process().grpc() : server.process().http();
    return OutcomeOf(address, row.bytes, IsOneOf(row.outcome, "open") ? kSilence : kLongestAnswer);
  }

  AttackedServer server;
  std::unique_ptr<Neighbour> neighbour;
  Held before;
};

class Refusals : public ::testing::TestWithParam<const Group*> {
 protected:
  static void TearDownTestSuite() {
    for (auto& [config, attacked] : servers_) {
      ServerProcess& process = attacked->server.process();
      process.Signal(SIGTERM);
      EXPECT_EQ(process.Wait(30), 0) << config << ": " << process.Log();
    }
    servers_.clear();
  }
  static Attacked& ServerOf(const std::string& config) {
    std::unique_ptr<Attacked>& attacked = servers_[config];
    if (attacked == nullptr) attacked = std::make_unique<Attacked>(config);
    return *attacked;
  }

  static std::map<std::string, std::unique_ptr<Attacked>> servers_;
};

std::map<std::string, std::unique_ptr<Attacked>> Refusals::servers_;

TEST_P(Refusals, AreExactAndLeaveNothingBehind) {
  const Group& group = *GetParam();
  Attacked& attacked = ServerOf(group.config);
  ASSERT_TRUE(attacked.server.process().ready());
  Neighbour& neighbour = *attacked.neighbour;
  neighbour.Start();
  for (const CallRow& row : group.calls) {
    SCOPED_TRACE(row.name);
    ExpectAnswer(row.answer, attacked.server.Play(row.sent));
  }
  for (const ConnectionRow& row : group.connections) {
    SCOPED_TRACE(row.name);
    const std::string outcome = attacked.Connect(row);
    EXPECT_TRUE(IsOneOf(row.outcome, outcome)) << "is:     " << outcome << "\nmust be: " << row.outcome;
  }
  neighbour.Stop();
  EXPECT_GE(neighbour.num_streams(), 1);
  EXPECT_TRUE(group.fills_the_server || neighbour.num_refused() == 0) << neighbour.num_refused();
  EXPECT_LE(neighbour.longest_gap(), kLongestGap);

  EXPECT_EQ(attacked.server.WaitUntilIdle(), "");
  EXPECT_EQ(attacked.server.WaitUntilBackAt(attacked.before, kMemoryBound), "");
  std::cout << group.name << ": " << group.calls.size() + group.connections.size() << " rows beside "
            << neighbour.num_streams() << " streams, longest gap " << neighbour.longest_gap().count()
            << " ms; resident MiB " << (attacked.server.held().resident_bytes >> 20) << "\n";
  EXPECT_EQ(RunDunlin({"healthcheck", "--address", attacked.server.process().grpc()}).status, 0);
  EXPECT_EQ(HttpGet(attacked.server.process().http(), "/readyz"), "ok\n");
}

std::vector<const Group*> Pointers() {
  std::vector<const Group*> pointers;
  for (const Group& group : Groups()) pointers.push_back(&group);
  return pointers;
}

INSTANTIATE_TEST_SUITE_P(Table, Refusals, ::testing::ValuesIn(Pointers()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace
}  // namespace dunlin::integration
