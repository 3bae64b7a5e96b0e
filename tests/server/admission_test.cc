#include "server/admission.h"

#include <gtest/gtest.h>

#include <utility>
#include <variant>
#include <vector>

#include "server/convert/errors.h"

namespace dunlin::server {
namespace {

Limits Small() {
  Limits limits;
  limits.max_concurrent_requests = 2;
  limits.max_queued_bytes = 100;
  limits.retry_after_ms = 250;
  return limits;
}

TEST(Admission, OpensOnceAndClosesForGood) {
  Admission admission(Small());
  EXPECT_EQ(ReasonName(admission.Admit(1).status()), "NOT_READY");
  admission.Open();
  EXPECT_TRUE(admission.Admit(1).ok());
  admission.Close();
  admission.Open();
  EXPECT_EQ(ReasonName(admission.Admit(1).status()), "DRAINING");
}

TEST(Admission, BoundsRequestsAndBytes) {
  Admission admission(Small());
  admission.Open();
  absl::StatusOr<Admission::Ticket> first = admission.Admit(60);
  ASSERT_TRUE(first.ok());
  const absl::Status bytes = admission.Admit(41).status();
  EXPECT_EQ(ReasonName(bytes), "TOO_MANY_QUEUED_BYTES");
  EXPECT_EQ(RetryAfterMs(bytes), 250);
  first->ReleaseBytes();
  first->ReleaseBytes();
  EXPECT_EQ(admission.stats().queued_bytes, 0);
  absl::StatusOr<Admission::Ticket> second = admission.Admit(100);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(ReasonName(admission.Admit(0).status()), "TOO_MANY_REQUESTS");
  *second = Admission::Ticket();
  EXPECT_EQ(admission.stats().requests, 1);
  EXPECT_EQ(admission.stats().queued_bytes, 0);
}

TEST(Admission, WhoKnocksHearsWhyTheDoorIsShut) {
  Admission admission(Small());
  const auto refusal = [&admission](size_t bytes) { return std::get<DoorRefusal>(admission.Knock(bytes)); };
  EXPECT_EQ(refusal(1), DoorRefusal::kNotReady);
  admission.Open();
  const auto first = admission.Knock(100);
  EXPECT_TRUE(std::holds_alternative<Admission::Ticket>(first));
  EXPECT_EQ(refusal(1), DoorRefusal::kTooManyQueuedBytes);
  const auto second = admission.Knock(0);
  EXPECT_EQ(refusal(0), DoorRefusal::kTooManyRequests);
  EXPECT_EQ(admission.StatusOf(DoorRefusal::kTooManyRequests), admission.Admit(0).status());
  admission.Close();
  EXPECT_EQ(refusal(0), DoorRefusal::kDraining);
}

TEST(Admission, WaitsUntilTheLastTicketIsBack) {
  Admission admission(Small());
  admission.Open();
  std::vector<Admission::Ticket> tickets;
  tickets.push_back(*admission.Admit(1));
  EXPECT_FALSE(admission.WaitUntilIdle(absl::Now()));
  Admission::Ticket moved = std::move(tickets[0]);
  tickets.clear();
  EXPECT_EQ(admission.stats().requests, 1);
  moved = Admission::Ticket();
  EXPECT_TRUE(admission.WaitUntilIdle(absl::Now()));
}

TEST(Admission, TicketsMayOutliveIt) {
  Admission::Ticket ticket;
  {
    Admission admission(Small());
    admission.Open();
    ticket = *admission.Admit(1);
  }
}

}  // namespace
}  // namespace dunlin::server
