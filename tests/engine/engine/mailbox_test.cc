// SPDX-License-Identifier: Apache-2.0
// The hand-over alone, without an engine thread: this thread plays both sides.
#include "engine/mailbox.h"

#include <gtest/gtest.h>

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
  absl::StatusOr<RequestId> Submit(std::unique_ptr<Sequence> sequence) {
    const auto num_tokens = static_cast<uint64_t>(sequence->prompt_len);
    return mailbox_.Submit(std::move(sequence), num_tokens);
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

TEST_F(MailboxTest, StaysClosedOnceStopped) {
  mailbox_.Close(AcceptState::kStopped);
  mailbox_.Close(AcceptState::kDraining);
  EXPECT_EQ(Submit(SomeSequence()).status().message(), "the model has stopped");
  Exchange();
  EXPECT_TRUE(mail_.stop);
}

}  // namespace
}  // namespace dunlin::engine
