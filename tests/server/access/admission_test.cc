// SPDX-License-Identifier: Apache-2.0
#include "server/access/admission.h"

#include <gtest/gtest.h>

#include <utility>
#include <variant>
#include <vector>

#include "absl/time/clock.h"

namespace dunlin::server {
namespace {

constexpr AdmissionLimits kSmall = {.max_concurrent_requests = 2, .max_queued_bytes = 100};

AdmissionRefusal RefusalOf(Admission* admission, size_t bytes) {
  return std::get<AdmissionRefusal>(admission->TryAdmit(bytes));
}
Admission::Ticket TicketOf(Admission* admission, size_t bytes) {
  return std::get<Admission::Ticket>(admission->TryAdmit(bytes));
}

TEST(Admission, OpensOnceAndClosesForGood) {
  Admission admission(kSmall);
  EXPECT_EQ(RefusalOf(&admission, 1), AdmissionRefusal::kLoading);
  admission.Open();
  TicketOf(&admission, 1);
  admission.Close(AdmissionRefusal::kDeviceFailed);
  admission.Open();
  admission.Close(AdmissionRefusal::kDraining);
  EXPECT_EQ(RefusalOf(&admission, 1), AdmissionRefusal::kDeviceFailed) << "the first reason stays";
}

TEST(Admission, ASuspensionRefusesUntilItIsLiftedAndHidesNeitherLoadingNorAnEnd) {
  Admission admission(kSmall);
  admission.Suspend(AdmissionRefusal::kEngineStalled);
  EXPECT_EQ(admission.refusal(), AdmissionRefusal::kLoading);
  admission.Open();
  EXPECT_EQ(RefusalOf(&admission, 1), AdmissionRefusal::kEngineStalled);
  admission.Suspend(AdmissionRefusal::kTextPoolStalled);
  EXPECT_EQ(RefusalOf(&admission, 1), AdmissionRefusal::kTextPoolStalled);
  admission.Suspend(std::nullopt);
  EXPECT_EQ(admission.refusal(), std::nullopt);
  TicketOf(&admission, 1);
  admission.Suspend(AdmissionRefusal::kEngineStalled);
  admission.Close(AdmissionRefusal::kDraining);
  EXPECT_EQ(RefusalOf(&admission, 1), AdmissionRefusal::kDraining);
}

TEST(Admission, ATenantLeavesRequestsToOthers) {
  Admission admission({.max_concurrent_requests = 16, .max_queued_bytes = 100});
  admission.Open();
  std::vector<Admission::Ticket> tickets;
  const auto take = [&](engine::TenantId tenant) {
    Admission::Ticket ticket = TicketOf(&admission, 0);
    const bool taken = ticket.TakeTenantShare(tenant);
    if (taken) tickets.push_back(std::move(ticket));
    return taken;
  };
  for (int i = 0; i < 14; ++i) EXPECT_TRUE(take(1)) << i;
  EXPECT_FALSE(take(1));
  EXPECT_EQ(admission.stats().requests, 14) << "what was refused holds nothing";
  EXPECT_TRUE(take(2));
  tickets.clear();
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(take(engine::kSharedTenant)) << i;
  tickets.pop_back();
  EXPECT_TRUE(take(1));
  tickets.erase(tickets.begin());
  EXPECT_FALSE(take(engine::kSharedTenant)) << "it is no longer alone";
}

TEST(Admission, BoundsRequestsAndBytes) {
  Admission admission(kSmall);
  admission.Open();
  Admission::Ticket first = TicketOf(&admission, 60);
  EXPECT_EQ(RefusalOf(&admission, 41), AdmissionRefusal::kTooManyQueuedBytes);
  first.ReleaseBytes();
  first.ReleaseBytes();
  EXPECT_EQ(admission.stats().queued_bytes, 0);
  Admission::Ticket second = TicketOf(&admission, 100);
  EXPECT_EQ(RefusalOf(&admission, 0), AdmissionRefusal::kTooManyRequests);
  second = Admission::Ticket();
  EXPECT_EQ(admission.stats().requests, 1);
  EXPECT_EQ(admission.stats().queued_bytes, 0);
}

TEST(Admission, RefusesAMessageLargerThanTheWholeBudget) {
  Admission admission(kSmall);
  admission.Open();
  EXPECT_EQ(RefusalOf(&admission, 101), AdmissionRefusal::kTooManyQueuedBytes);
}

TEST(Admission, BoundsTheMemoryOfAllOutputsUntilTheirTicketsAreBack) {
  Admission admission({.max_concurrent_requests = 3, .max_queued_bytes = 100, .max_output_bytes = 50});
  admission.Open();
  Admission::Ticket first = TicketOf(&admission, 1);
  Admission::Ticket second = TicketOf(&admission, 1);
  EXPECT_FALSE(first.TakeOutputBytes(51));
  EXPECT_TRUE(first.TakeOutputBytes(30));
  EXPECT_FALSE(second.TakeOutputBytes(21));
  EXPECT_TRUE(second.TakeOutputBytes(20));
  EXPECT_EQ(admission.stats().output_bytes, 50);
  const Admission::Ticket moved = std::move(second);
  first = Admission::Ticket();
  EXPECT_EQ(admission.stats().output_bytes, 20);
}

TEST(Admission, WaitsUntilTheLastTicketIsBack) {
  Admission admission(kSmall);
  admission.Open();
  std::vector<Admission::Ticket> tickets;
  tickets.push_back(TicketOf(&admission, 1));
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
    Admission admission(kSmall);
    admission.Open();
    ticket = TicketOf(&admission, 1);
  }
}

}  // namespace
}  // namespace dunlin::server
