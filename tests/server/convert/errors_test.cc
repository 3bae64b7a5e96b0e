// The error catalogue, row by row, and how it looks as a gRPC status.
#include "server/convert/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/convert/finish.h"
#include "server/grpc/grpc_status.h"

namespace dunlin::server {
namespace {

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status wire;
  EXPECT_TRUE(wire.ParseFromString(status.error_details()));
  return wire;
}

TEST(Errors, EveryReasonHasOneNameAndOneCode) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(Reason::kInternal); ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_EQ(Traits(reason).reason, reason);
    EXPECT_TRUE(names.insert(Traits(reason).name).second) << Traits(reason).name;
    const absl::Status status = MakeError(reason, "what");
    EXPECT_EQ(status.code(), Traits(reason).code);
    EXPECT_EQ(ReasonName(status), Traits(reason).name);
    const grpc::Status wire = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(wire.error_code()), static_cast<int>(status.code()));
    EXPECT_EQ(wire.error_message(), "what");
    EXPECT_EQ(Details(wire).code(), static_cast<int>(status.code()));
  }
}

TEST(Errors, OkHasNoDetails) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_EQ(ToGrpcStatus(absl::OkStatus()).error_details(), "");
}

TEST(Errors, AStatusFromElsewhereGetsAReason) {
  const google::rpc::Status wire = Details(ToGrpcStatus(absl::DataLossError("odd")));
  ASSERT_EQ(wire.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(wire.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "INTERNAL");
  EXPECT_EQ(info.domain(), "dunlin");
}

TEST(Errors, LongStatusesAreCutToFitTheTrailers) {
  const std::vector<std::string> reasons(200, std::string(100, 'r'));
  const grpc::Status status = ToGrpcStatus(ProfileRefused(std::string(5000, 'm'), reasons));
  EXPECT_LE(status.error_message().size(), 1024U);
  EXPECT_LE(status.error_details().size(), 5000U);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST(Errors, TheEnginesRefusalsKeepCodeAndMessage) {
  const absl::Status bad = FromEngine(absl::InvalidArgumentError("prompt has 9 tokens; limit is 8"), 100);
  EXPECT_EQ(bad.message(), "prompt has 9 tokens; limit is 8");
  google::rpc::BadRequest request;
  const google::rpc::Status wire = Details(ToGrpcStatus(bad));
  for (const auto& detail : wire.details()) detail.UnpackTo(&request);
  ASSERT_EQ(request.field_violations_size(), 1);
  EXPECT_EQ(request.field_violations(0).field(), "prompt");
  EXPECT_EQ(RetryAfterMs(FromEngine(absl::ResourceExhaustedError("full"), 1234)), 1234);
  EXPECT_EQ(ReasonName(FromEngine(absl::UnavailableError("gone"), 1)), "DRAINING");
  EXPECT_TRUE(FromEngine(absl::OkStatus(), 1).ok());
  EXPECT_EQ(FromEngine(absl::InternalError("pointer 0x1234"), 1).message(), "the engine refused the request");
}

TEST(Errors, NamesOfClientsAreCutAndEscaped) {
  const absl::Status status = UnknownModel(std::string(500, 'x') + "\n");
  EXPECT_LT(status.message().size(), 120U);
  EXPECT_EQ(UnknownModel("a\x1b[31m\n").message(), "model \"a\\x1b[31m\\n\" is not served");
}

TEST(Finish, EveryReasonHasANameAndAStatus) {
  using engine::FinishReason;
  struct Row {
    FinishReason reason;
    const char* name;
    absl::StatusCode code;
  };
  const Row rows[] = {{FinishReason::kStop, "stop", absl::StatusCode::kOk},
                      {FinishReason::kLength, "length", absl::StatusCode::kOk},
                      {FinishReason::kCancelled, "cancelled", absl::StatusCode::kCancelled},
                      {FinishReason::kDeadline, "deadline", absl::StatusCode::kDeadlineExceeded},
                      {FinishReason::kSlowReader, "slow_reader", absl::StatusCode::kResourceExhausted},
                      {FinishReason::kNumerical, "numerical", absl::StatusCode::kInternal},
                      {FinishReason::kShutdown, "shutdown", absl::StatusCode::kUnavailable},
                      {FinishReason::kInternal, "internal", absl::StatusCode::kUnavailable}};
  for (const Row& row : rows) {
    EXPECT_STREQ(FinishReasonName(row.reason), row.name);
    EXPECT_EQ(StatusOf(row.reason).code(), row.code) << row.name;
  }
}

TEST(Finish, UsageAndTimingsComeFromTheEngine) {
  engine::FinishInfo info;
  info.reason = engine::FinishReason::kStop;
  info.stop_token_id = 7;
  info.prompt_tokens = 5;
  info.cached_tokens = 4;
  info.arrival = 1'000'000;
  info.first_scheduled = 3'000'000;
  info.first_token = 4'500'000;
  info.finished = 11'000'000;
  const v1::Finish wire = FinishToWire(info, 9);
  EXPECT_EQ(wire.reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(wire.stop_token_id(), 7);
  EXPECT_EQ(wire.usage().prompt_tokens(), 5);
  EXPECT_EQ(wire.usage().cached_tokens(), 4);
  EXPECT_EQ(wire.usage().completion_tokens(), 9);
  EXPECT_DOUBLE_EQ(wire.timings().queue_ms(), 2.0);
  EXPECT_DOUBLE_EQ(wire.timings().ttft_ms(), 3.5);
  EXPECT_DOUBLE_EQ(wire.timings().total_ms(), 10.0);
  const v1::Finish stopped = FinishOfStopString(info, 3, "END");
  EXPECT_EQ(stopped.stop(), "END");
  EXPECT_EQ(stopped.usage().completion_tokens(), 3);
}

}  // namespace
}  // namespace dunlin::server
