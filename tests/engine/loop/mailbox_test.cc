// SPDX-License-Identifier: Apache-2.0
// The hand-over alone, without an engine thread: this thread plays both sides.
#include "engine/loop/mailbox.h"

#include <gtest/gtest.h>

#include <deque>

#include "engine/scheduler/sequence.h"
#include "tests/simulation/recording_sink.h"

namespace dunlin::engine {
namespace {

std::unique_ptr<Sequence> SomeSequence() {
  Request request;
  request.prompt = {1, 2, 3};
  return MakeSequence(request, std::make_shared<simulation::RecordingSink>(8), 4);
}

class MailboxTest : public testing::Test {
 protected:
  absl::StatusOr<RequestId> Submit(std::unique_ptr<Sequence> sequence, TenantId tenant = kSharedTenant) {
    const auto num_tokens = static_cast<uint64_t>(sequence->prompt_len);
    return mailbox_.Submit(std::move(sequence), tenant, num_tokens);
  }
  void Exchange() { mailbox_.Exchange(false, &retired_, &mail_); }

  Mailbox<Sequence> mailbox_{{.max_queued_requests = 4, .max_queued_tokens = 100, .max_live = 6}};
  std::vector<Sequence*> retired_;
  Mailbox<Sequence>::Mail mail_;
};

TEST_F(MailboxTest, HandsOverEachArrivalOnceInOrder) {
  const RequestId a = *Submit(SomeSequence());
  const RequestId b = *Submit(SomeSequence());
  Exchange();
  ASSERT_EQ(mail_.arrivals.size(), 2U);
  EXPECT_EQ(mail_.arrivals[0]->id, a);
  EXPECT_EQ(mail_.arrivals[1]->id, b);
  Exchange();
  EXPECT_TRUE(mail_.arrivals.empty());
}

TEST_F(MailboxTest, PassesOneEndPerRequestHoweverOftenItIsCancelled) {
  const RequestId id = *Submit(SomeSequence());
  for (int i = 0; i < 1000; ++i) mailbox_.Cancel(id, FinishReason::kCancelled);
  Exchange();
  EXPECT_EQ(mail_.endings.size(), 1U);
  mailbox_.Cancel(id, FinishReason::kCancelled);
  Exchange();
  EXPECT_TRUE(mail_.endings.empty());
}

TEST_F(MailboxTest, DropsAnEndThatMeetsItsRequestRetired) {
  const RequestId id = *Submit(SomeSequence());
  Exchange();
  retired_.push_back(mail_.arrivals[0]);
  mailbox_.Cancel(id, FinishReason::kCancelled);
  Exchange();
  EXPECT_TRUE(mail_.endings.empty());
  EXPECT_TRUE(retired_.empty());
}

TEST_F(MailboxTest, DestroysRetiredSequencesInSubmit) {
  auto sink = std::make_shared<simulation::RecordingSink>(8);
  const std::weak_ptr<OutputSink> watched = sink;
  Request request;
  request.prompt = {1};
  ASSERT_TRUE(Submit(MakeSequence(request, std::move(sink), 4)).ok());
  Exchange();
  retired_.push_back(mail_.arrivals[0]);
  Exchange();
  EXPECT_FALSE(watched.expired());
  ASSERT_TRUE(Submit(SomeSequence()).ok());
  EXPECT_TRUE(watched.expired());
}

TEST_F(MailboxTest, DestroysRetiredSequencesWhenTheEngineEnds) {
  auto sink = std::make_shared<simulation::RecordingSink>(8);
  const std::weak_ptr<OutputSink> watched = sink;
  Request request;
  request.prompt = {1};
  ASSERT_TRUE(Submit(MakeSequence(request, std::move(sink), 4)).ok());
  Exchange();
  retired_.push_back(mail_.arrivals[0]);
  mailbox_.Close(AcceptState::kFailed);
  Exchange();
  mailbox_.DestroyRetired();
  EXPECT_TRUE(watched.expired());
}

TEST_F(MailboxTest, BoundsWhatIsLiveBeyondTheQueue) {
  for (int i = 0; i < 6; ++i) {
    mailbox_.SetDequeued(static_cast<uint64_t>(i), 0);  // all but the newest run, and never end
    ASSERT_TRUE(Submit(SomeSequence()).ok());
  }
  mailbox_.SetDequeued(6, 0);
  const absl::StatusOr<RequestId> refused = Submit(SomeSequence());
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(mailbox_.live(), 6);
}

// A queue of 16 requests and 200 tokens.
class MailboxSharesTest : public testing::Test {
 protected:
  absl::Status Submit(TenantId tenant, uint64_t num_tokens = 3) {
    return mailbox_.Submit(SomeSequence(), tenant, num_tokens).status();
  }
  // The oldest request, of 3 tokens, has left the queue, and ended.
  void EndOne() {
    Exchange();
    Sequence* sequence = arrived_.front();
    arrived_.pop_front();
    sequence->queue_usage->Dequeue(3);
    ++dequeued_;
    mailbox_.SetDequeued(dequeued_, 3 * dequeued_);
    retired_.push_back(sequence);
    Exchange();
  }
  void Exchange() {
    mailbox_.Exchange(false, &retired_, &mail_);
    arrived_.insert(arrived_.end(), mail_.arrivals.begin(), mail_.arrivals.end());
  }

  Mailbox<Sequence> mailbox_{{.max_queued_requests = 16, .max_queued_tokens = 200, .max_live = 32}};
  std::vector<Sequence*> retired_;
  std::deque<Sequence*> arrived_;
  Mailbox<Sequence>::Mail mail_;
  uint64_t dequeued_ = 0;
};

TEST_F(MailboxSharesTest, ATenantLeavesPlacesToOthersWhetherTheyAreThereOrNot) {
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(Submit(1).ok()) << i;
  const absl::Status refused = Submit(1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(refused.message(),
            "queue has 14 requests of the caller; of 16 a caller gets at most 7 times as many as are free, and 2 are "
            "(scheduler.max_queued_requests)");
  EXPECT_TRUE(Submit(2).ok()) << "it has none in the queue";
  EXPECT_FALSE(Submit(2).ok()) << "the last place is for one that has none";
  EXPECT_TRUE(Submit(3).ok());
  EXPECT_FALSE(Submit(4).ok()) << "there is no place left";
  EndOne();
  EXPECT_FALSE(Submit(1).ok()) << "it still has most";
  EXPECT_TRUE(Submit(4).ok());
}

TEST_F(MailboxSharesTest, WhatHasLeftTheQueueNoLongerCounts) {
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(Submit(1).ok());
  for (int i = 0; i < 14; ++i) EndOne();
  for (int i = 0; i < 14; ++i) EXPECT_TRUE(Submit(1).ok()) << i;
  EXPECT_FALSE(Submit(1).ok());
}

TEST_F(MailboxSharesTest, RequestsWithoutANameHaveTheWholeQueueWhileTheyAreAlone) {
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(Submit(kSharedTenant).ok()) << i;
  EXPECT_TRUE(Submit(1).ok());
  EndOne();
  EXPECT_FALSE(Submit(kSharedTenant).ok());
}

TEST_F(MailboxSharesTest, TokensAreSharedAlike) {
  EXPECT_TRUE(Submit(1, 150).ok());
  EXPECT_TRUE(Submit(1, 25).ok());
  const absl::Status refused = Submit(1, 20);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(refused.message(),
            "queue has 175 prompt tokens of the caller; of 200 a caller gets at most 7 times as many as are free, and "
            "25 are (scheduler.max_queued_tokens)");
  EXPECT_TRUE(Submit(2, 25).ok()) << "one that has none may take all that is left";
}

TEST_F(MailboxTest, StaysClosedOnceStopped) {
  mailbox_.Close(AcceptState::kStopped);
  mailbox_.Close(AcceptState::kDraining);
  EXPECT_EQ(Submit(SomeSequence()).status().message(), "the model has stopped");
  Exchange();
  EXPECT_TRUE(mail_.stop);
}

}  // namespace
}  // namespace dunlin::engine
