// SPDX-License-Identifier: Apache-2.0
// How the error catalogue looks as gRPC statuses.
#include "server/transport/grpc/grpc_status.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status wire;
  EXPECT_TRUE(wire.ParseFromString(status.error_details()));
  return wire;
}

template <class Detail>
Detail Get(const absl::Status& status) {
  Detail detail;
  const google::rpc::Status wire = Details(ToGrpcStatus(status));
  for (const auto& any : wire.details()) {
    if (any.UnpackTo(&detail)) return detail;
  }
  ADD_FAILURE() << "no " << Detail::descriptor()->full_name();
  return detail;
}

TEST(GrpcStatus, EveryReasonKeepsItsCodeAndMessage) {
  for (int i = 0; i <= static_cast<int>(Reason::kInternal); ++i) {
    const absl::Status status = MakeError(static_cast<Reason>(i), "what");
    const grpc::Status wire = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(wire.error_code()), static_cast<int>(status.code()));
    EXPECT_EQ(wire.error_message(), "what");
    EXPECT_EQ(Details(wire).code(), static_cast<int>(status.code()));
    EXPECT_EQ(Get<google::rpc::ErrorInfo>(status).reason(), ReasonName(status));
  }
}

TEST(GrpcStatus, OkHasNoDetails) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_EQ(ToGrpcStatus(absl::OkStatus()).error_details(), "");
}

TEST(GrpcStatus, AStatusFromElsewhereGetsAReason) {
  const google::rpc::Status wire = Details(ToGrpcStatus(absl::DataLossError("odd")));
  ASSERT_EQ(wire.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(wire.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "INTERNAL");
  EXPECT_EQ(info.domain(), "dunlin");
}

TEST(GrpcStatus, LongStatusesAreCutToFitTheTrailers) {
  const std::vector<std::string> reasons(200, std::string(100, 'r'));
  const grpc::Status status = ToGrpcStatus(ProfileRefused(std::string(5000, 'm'), reasons));
  EXPECT_LE(status.error_message().size(), 1024U);
  EXPECT_LE(status.error_details().size(), 5000U);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST(GrpcStatus, FieldsLimitsAndRetriesHaveTheirDetails) {
  const absl::Status field =
      InvalidField(engine::Violation::Of(engine::RequestField::kTopP, "is 1.5", "(0, 1]"), kPlainFieldNames);
  ASSERT_EQ(Get<google::rpc::BadRequest>(field).field_violations_size(), 1);
  EXPECT_EQ(Get<google::rpc::BadRequest>(field).field_violations(0).field(), "top_p");
  EXPECT_EQ(Get<google::rpc::BadRequest>(field).field_violations(0).description(), "top_p is 1.5; limit is (0, 1]");
  EXPECT_EQ(Get<google::rpc::ErrorInfo>(field).metadata().at("limit"), "(0, 1]");
  EXPECT_EQ(Get<google::rpc::PreconditionFailure>(ProfileRefused("no", {"a", "b"})).violations_size(), 2);
  EXPECT_EQ(Get<google::rpc::ResourceInfo>(UnknownModel("m")).resource_name(), "m");
  const absl::Status full = Overloaded(Reason::kQueueFull, "full", "scheduler.max_queued_requests", 1500);
  EXPECT_EQ(Get<google::rpc::QuotaFailure>(full).violations(0).subject(), "scheduler.max_queued_requests");
  EXPECT_EQ(Get<google::rpc::RetryInfo>(full).retry_delay().seconds(), 1);
  EXPECT_EQ(Get<google::rpc::RetryInfo>(full).retry_delay().nanos(), 500'000'000);
  EXPECT_EQ(ToGrpcReply(full).retry_pushback_ms, "1500");
  EXPECT_FALSE(ToGrpcReply(field).retry_pushback_ms.has_value());
}

}  // namespace
}  // namespace dunlin::server
