// SPDX-License-Identifier: Apache-2.0
#include "server/access/admission.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/clock.h"

namespace dunlin::server {
namespace {

constexpr AdmissionLimits kSmall = {.max_concurrent_requests = 2, .max_queued_bytes = 100};

constexpr engine::TenantId kFlood = 1;
constexpr engine::TenantId kOther = 2;

AdmissionRefusal AdmissionRefusalOf(Admission* admission, size_t bytes, engine::TenantId payer = kFlood) {
  return std::get<AdmissionRefusal>(admission->TryAdmit(payer, bytes));
}
Admission::Ticket TicketOf(Admission* admission, size_t bytes, engine::TenantId payer = kFlood) {
  return std::get<Admission::Ticket>(admission->TryAdmit(payer, bytes));
}

TEST(Admission, OpensOnceAndClosesForGood) {
  Admission admission(kSmall);
  EXPECT_EQ(AdmissionRefusalOf(&admission, 1), AdmissionRefusal::kLoading);
  admission.Open();
  TicketOf(&admission, 1);
  admission.Close(AdmissionRefusal::kDeviceFailed);
  admission.Open();
  admission.Close(AdmissionRefusal::kDraining);
  EXPECT_EQ(AdmissionRefusalOf(&admission, 1), AdmissionRefusal::kDeviceFailed) << "the first reason stays";
}

TEST(Admission, ASuspensionRefusesUntilItIsLiftedAndHidesNeitherLoadingNorAnEnd) {
  Admission admission(kSmall);
  admission.Suspend(AdmissionRefusal::kEngineStalled);
  EXPECT_EQ(admission.refusal(), AdmissionRefusal::kLoading);
  admission.Open();
  EXPECT_EQ(AdmissionRefusalOf(&admission, 1), AdmissionRefusal::kEngineStalled);
  admission.Suspend(AdmissionRefusal::kTextPoolStalled);
  EXPECT_EQ(AdmissionRefusalOf(&admission, 1), AdmissionRefusal::kTextPoolStalled);
  admission.Suspend(std::nullopt);
  EXPECT_EQ(admission.refusal(), std::nullopt);
  TicketOf(&admission, 1);
  admission.Suspend(AdmissionRefusal::kEngineStalled);
  admission.Close(AdmissionRefusal::kDraining);
  EXPECT_EQ(AdmissionRefusalOf(&admission, 1), AdmissionRefusal::kDraining);
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
  EXPECT_EQ(AdmissionRefusalOf(&admission, 41), AdmissionRefusal::kTooManyQueuedBytes);
  first.ReleaseBytes();
  first.ReleaseBytes();
  EXPECT_EQ(admission.stats().queued_bytes, 0);
  Admission::Ticket second = TicketOf(&admission, 100);
  EXPECT_EQ(AdmissionRefusalOf(&admission, 0), AdmissionRefusal::kTooManyRequests);
  second = Admission::Ticket();
  EXPECT_EQ(admission.stats().requests, 1);
  EXPECT_EQ(admission.stats().queued_bytes, 0);
}

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

struct Held {
  std::vector<Admission::Ticket> messages;
  AdmissionRefusal why;  // no more
};
// Messages of the payer of which `bytes` have come, 4 KiB at a time, until one is refused.
Held HoldMessages(Admission* admission, engine::TenantId payer, size_t bytes) {
  Held held;
  while (true) {
    Admission::Ticket ticket = std::get<Admission::Ticket>(admission->TryReceive(payer, 0));
    for (size_t come = 0; come < bytes; come += 4 * kKiB) {
      const std::optional<AdmissionRefusal> refusal = ticket.TakeBytes(4 * kKiB);
      if (!refusal.has_value()) continue;
      held.why = *refusal;
      return held;
    }
    held.messages.push_back(std::move(ticket));
  }
}

TEST(Admission, ChargesAMessageAsItComesAndGivesItAPlaceOnceItIsThere) {
  Admission admission(kSmall);
  admission.Open();
  std::vector<Admission::Ticket> announced;
  for (int i = 0; i < 100; ++i) announced.push_back(std::get<Admission::Ticket>(admission.TryReceive(kFlood, 90)));
  EXPECT_EQ(admission.stats().requests, 0);
  EXPECT_EQ(admission.stats().receiving, 100);
  EXPECT_EQ(admission.stats().queued_bytes, 0) << "what is only announced holds nothing";
  EXPECT_FALSE(admission.WaitUntilIdle(absl::Now()));
  EXPECT_EQ(announced[0].TakeBytes(60), std::nullopt);
  EXPECT_EQ(announced[0].TakePlace(), std::nullopt);
  EXPECT_EQ(admission.stats().requests, 1);
  EXPECT_EQ(admission.stats().queued_bytes, 60);
  EXPECT_EQ(announced[1].TakeBytes(41), AdmissionRefusal::kTooManyQueuedBytes);
  EXPECT_EQ(std::get<AdmissionRefusal>(admission.TryReceive(kOther, 41)), AdmissionRefusal::kTooManyQueuedBytes)
      << "before it comes";
  EXPECT_EQ(announced[1].TakePlace(), std::nullopt);
  EXPECT_EQ(announced[2].TakePlace(), AdmissionRefusal::kTooManyRequests);
  EXPECT_EQ(std::get<AdmissionRefusal>(admission.TryReceive(kFlood, 0)), AdmissionRefusal::kTooManyRequests);
  announced.clear();
  EXPECT_EQ(admission.stats().queued_bytes, 0);
  EXPECT_EQ(admission.stats().receiving, 0);
  EXPECT_EQ(admission.stats().requests, 0);
}

TEST(Admission, ChargesBytesToTheSharesOfTheirPayers) {
  Admission admission({.max_concurrent_requests = 10'000, .max_queued_bytes = 64 << 20});
  admission.Open();
  const Held large = HoldMessages(&admission, kFlood, 4 * kMiB);
  EXPECT_EQ(large.messages.size(), 12U) << "of seven eighths of 56 MiB";
  EXPECT_EQ(large.why, AdmissionRefusal::kTooManyQueuedBytesOfCaller);
  TicketOf(&admission, 4 * kMiB, kOther);
  TicketOf(&admission, 16 * kKiB);  // a small one of the flood's own
  const Held small = HoldMessages(&admission, kFlood, 16 * kKiB);
  EXPECT_GE(small.messages.size(), 400U);
  EXPECT_EQ(small.why, AdmissionRefusal::kTooManyQueuedBytesOfCaller);
  EXPECT_LE(admission.stats().queued_bytes, 56 << 20);
  TicketOf(&admission, 16 * kKiB, kOther);
  TicketOf(&admission, 4 * kMiB, kOther);  // a flood of small ones takes no room of large ones
}

TEST(Admission, TheOnlyMessageMayTakeEverything) {
  Admission admission({.max_concurrent_requests = 10, .max_queued_bytes = 4 << 20});
  admission.Open();
  Admission::Ticket only = std::get<Admission::Ticket>(admission.TryReceive(kFlood, 4 * kMiB));
  for (int i = 0; i < 1024; ++i) ASSERT_EQ(only.TakeBytes(4 * kKiB), std::nullopt) << i;
  only.ReleaseBytes();
  EXPECT_EQ(admission.stats().queued_bytes, 0);
  TicketOf(&admission, 4 * kMiB);
}

TEST(Admission, RefusesAMessageLargerThanTheWholeBudget) {
  Admission admission(kSmall);
  admission.Open();
  EXPECT_EQ(AdmissionRefusalOf(&admission, 101), AdmissionRefusal::kTooManyQueuedBytes);
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
