// SPDX-License-Identifier: Apache-2.0
// The error catalogue, row by row, and the details that a front end renders.
#include "server/serving/record/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/cord.h"
#include "engine/loop/mailbox.h"
#include "server/serving/record/client_field.h"

namespace dunlin::server {
namespace {

using engine::FinishReason;
using testing::ElementsAre;
using C = ClientField;
using F = engine::RequestField;

constexpr FieldNames kNames({{C::kStopString, "stopping.stop[*]"}, {C::kOmitText, "output.omit_text"}});

TEST(Errors, EveryReasonHasOneNameAndOneCode) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(Reason::kInternal); ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_EQ(Traits(reason).reason, reason);
    EXPECT_TRUE(names.insert(Traits(reason).name).second) << Traits(reason).name;
    const absl::Status status = MakeError(reason, "what");
    EXPECT_EQ(status.code(), Traits(reason).code);
    EXPECT_EQ(status.message(), "what");
    EXPECT_EQ(ReasonName(status), Traits(reason).name);
  }
}

TEST(Errors, AStatusFromElsewhereHasNoDetails) {
  const ErrorDetails details = DetailsOf(absl::DataLossError("odd"));
  EXPECT_EQ(details.reason, "");
  EXPECT_EQ(details.field, "");
  EXPECT_TRUE(details.refusals.empty());
  EXPECT_FALSE(details.retry_after_ms.has_value());
}

TEST(Errors, FieldsAreNamedByTheFrontEnd) {
  const engine::Violation violation = engine::Violation::Of(C::kStopString, "has 0 bytes", "1 to 256", {3});
  const absl::Status status = InvalidField(violation, kNames);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "stopping.stop[3] has 0 bytes; limit is 1 to 256");
  EXPECT_EQ(DetailsOf(status).field, "stopping.stop[3]");
  EXPECT_EQ(DetailsOf(status).limit, "1 to 256");
  EXPECT_EQ(InvalidField(violation, kPlainFieldNames).message(), "stop[3] has 0 bytes; limit is 1 to 256");
  EXPECT_EQ(
      InvalidField(engine::Violation::Against(C::kOmitText, C::kStopStrings, "needs what * leaves out", ""), kNames)
          .message(),
      "stop needs what output.omit_text leaves out");
  EXPECT_EQ(InvalidField(engine::Violation::Of(F::kInputToken, "is -1", "", {4, 2}), kNames).message(),
            "inputs[4][2] is -1");
}

TEST(Errors, AdmissionRefusalsCarryARetryDelay) {
  Limits limits;
  limits.retry_after_ms = 250;
  const absl::Status full = AdmissionRefused(AdmissionRefusal::kTooManyRequests, limits);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonName(full), "TOO_MANY_REQUESTS");
  EXPECT_EQ(DetailsOf(full).config_key, "limits.max_concurrent_requests");
  EXPECT_EQ(RetryAfterMs(full), 250);
  const absl::Status bytes = AdmissionRefused(AdmissionRefusal::kTooManyQueuedBytes, limits);
  EXPECT_EQ(ReasonName(bytes), "TOO_MANY_QUEUED_BYTES");
  EXPECT_EQ(RetryAfterMs(bytes), 250);
  EXPECT_EQ(ReasonName(AdmissionRefused(AdmissionRefusal::kLoading, limits)), "LOADING");
  EXPECT_EQ(ReasonName(AdmissionRefused(AdmissionRefusal::kDeviceFailed, limits)), "DEVICE_FAILED");
  for (const AdmissionRefusal stalled :
       {AdmissionRefusal::kEngineStalled, AdmissionRefusal::kTextPoolStalled, AdmissionRefusal::kTransportStalled}) {
    EXPECT_EQ(ReasonName(AdmissionRefused(stalled, limits)), "STALLED");
    EXPECT_TRUE(absl::IsUnavailable(AdmissionRefused(stalled, limits)));
  }
  EXPECT_EQ(ReasonName(AdmissionRefused(AdmissionRefusal::kDraining, limits)), "DRAINING");
}

TEST(Errors, RefusalsOfSubmitKeepTheirMessage) {
  const absl::Status full = SubmitRefused(absl::ResourceExhaustedError("queue has 9 requests"), 1234);
  EXPECT_EQ(full.message(), "queue has 9 requests");
  EXPECT_EQ(ReasonName(full), "QUEUE_FULL");
  EXPECT_EQ(RetryAfterMs(full), 1234);
  absl::Status tokens = absl::ResourceExhaustedError("too many tokens");
  tokens.SetPayload(engine::kConfigKeyPayload, absl::Cord("scheduler.max_queued_tokens"));
  EXPECT_EQ(DetailsOf(SubmitRefused(tokens, 1)).config_key, "scheduler.max_queued_tokens");
  EXPECT_EQ(ReasonName(SubmitRefused(absl::UnavailableError("gone"), 1)), "DRAINING");
  const absl::Status failed = SubmitRefused(absl::InternalError("pointer 0x1234"), 1);
  EXPECT_EQ(ReasonName(failed), "DEVICE_FAILED");
  EXPECT_EQ(failed.message(), "the device failed") << "what a device says is for the log";
  EXPECT_EQ(SubmitRefused(absl::UnknownError("pointer 0x1234"), 1).message(), "the engine refused the request");
}

TEST(Errors, WhatWouldMissItsDeadlineIsToldWhyAndWhenToComeBack) {
  const absl::Status status =
      WouldMissDeadline({.expected = 1'234'000'000, .running = 7, .ahead = 3}, 900'000'000, 250);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "the output would be complete after 1234 ms, beside 7 sequences that run and behind 3 that wait; the "
            "deadline is in 900 ms");
  EXPECT_EQ(ReasonName(status), "WOULD_MISS_DEADLINE");
  EXPECT_EQ(RetryAfterMs(status), 250);
  const absl::Status dropped = NotBegunForDeadline(250);
  EXPECT_EQ(ReasonName(dropped), "WOULD_MISS_DEADLINE");
  EXPECT_EQ(RetryAfterMs(dropped), 250);
}

TEST(Errors, EveryReasonAgainstAProfileIsKept) {
  EXPECT_THAT(DetailsOf(ProfileRefused("no", {"flash: a", "math: b"})).refusals, ElementsAre("flash: a", "math: b"));
}

TEST(Errors, ClientSuppliedNamesAreTruncatedAndEscaped) {
  const absl::Status status = UnknownModel(std::string(500, 'x') + "\n");
  EXPECT_LT(status.message().size(), 120U);
  EXPECT_EQ(DetailsOf(status).model.size(), 64U);
  EXPECT_EQ(UnknownModel("a\x1b[31m\n").message(), "model \"a\\x1b[31m\\n\" is not served");
}

TEST(Errors, EveryFinishReasonHasANameAndAStatus) {
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
                      {FinishReason::kPoolTooSmall, "pool_too_small", absl::StatusCode::kResourceExhausted},
                      {FinishReason::kShutdown, "shutdown", absl::StatusCode::kUnavailable},
                      {FinishReason::kInternal, "internal", absl::StatusCode::kUnavailable}};
  for (const Row& row : rows) {
    EXPECT_STREQ(FinishReasonName(row.reason), row.name);
    EXPECT_EQ(StatusOf(row.reason, Limits()).code(), row.code) << row.name;
    EXPECT_EQ(EndsWell(row.reason), row.code == absl::StatusCode::kOk) << row.name;
  }
}

TEST(Errors, ASlowReaderIsToldItsLimits) {
  EXPECT_EQ(
      StatusOf(FinishReason::kSlowReader, {.slow_reader_timeout_ms = 250, .max_unsent_tokens = 7}).message(),
      "the client reads too slowly; limit is 7 tokens that wait for it (limits.max_unsent_tokens) and 250 ms for a "
      "message (limits.slow_reader_timeout_ms)");
}

TEST(Errors, ACancelAtTheDeadlineIsDeadlineExceeded) {
  constexpr engine::TimeNs kSecond = 1'000'000'000;
  EXPECT_TRUE(absl::IsCancelled(CancelledStatus(engine::kNoDeadline, kSecond)));
  EXPECT_TRUE(absl::IsCancelled(CancelledStatus(2 * kSecond, kSecond)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(CancelledStatus(2 * kSecond, 2 * kSecond - 1)));
}

}  // namespace
}  // namespace dunlin::server
