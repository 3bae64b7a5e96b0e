// The hand-over alone, without an engine thread: this thread plays both sides.
#include "engine/inbox.h"

#include <gtest/gtest.h>

#include "tests/simulation/recording_sink.h"

namespace dunlin::engine {
namespace {

std::unique_ptr<Sequence> SomeSequence() {
  Request request;
  request.prompt = {1, 2, 3};
  return MakeSequence(request, std::make_shared<simulation::RecordingSink>(8), 4);
}

class InboxTest : public testing::Test {
 protected:
  void Exchange() { inbox_.Exchange(false, &retired_, &mail_); }

  Inbox inbox_{Inbox::Limits{4, 100, 6}};
  std::vector<Sequence*> retired_;
  Inbox::Mail mail_;
};

TEST_F(InboxTest, HandsOverEachArrivalOnceInOrder) {
  const RequestId a = *inbox_.Submit(SomeSequence());
  const RequestId b = *inbox_.Submit(SomeSequence());
  Exchange();
  ASSERT_EQ(mail_.arrivals.size(), 2U);
  EXPECT_EQ(mail_.arrivals[0]->id, a);
  EXPECT_EQ(mail_.arrivals[1]->id, b);
  Exchange();
  EXPECT_TRUE(mail_.arrivals.empty());
}

TEST_F(InboxTest, PassesOneEndPerRequestHoweverOftenItIsAskedFor) {
  const RequestId id = *inbox_.Submit(SomeSequence());
  for (int i = 0; i < 1000; ++i) inbox_.Cancel(id, FinishReason::kCancelled);
  Exchange();
  EXPECT_EQ(mail_.endings.size(), 1U);
  inbox_.Cancel(id, FinishReason::kCancelled);
  Exchange();
  EXPECT_TRUE(mail_.endings.empty());
}

TEST_F(InboxTest, DropsAnEndThatMeetsItsRequestRetired) {
  const RequestId id = *inbox_.Submit(SomeSequence());
  Exchange();
  retired_.push_back(mail_.arrivals[0]);
  inbox_.Cancel(id, FinishReason::kCancelled);
  Exchange();
  EXPECT_TRUE(mail_.endings.empty());
  EXPECT_TRUE(retired_.empty());
}

TEST_F(InboxTest, DestroysRetiredSequencesInSubmit) {
  auto sink = std::make_shared<simulation::RecordingSink>(8);
  const std::weak_ptr<OutputSink> watched = sink;
  Request request;
  request.prompt = {1};
  ASSERT_TRUE(inbox_.Submit(MakeSequence(request, std::move(sink), 4)).ok());
  Exchange();
  retired_.push_back(mail_.arrivals[0]);
  Exchange();
  EXPECT_FALSE(watched.expired());
  ASSERT_TRUE(inbox_.Submit(SomeSequence()).ok());
  EXPECT_TRUE(watched.expired());
}

TEST_F(InboxTest, BoundsWhatIsLiveBeyondTheQueue) {
  for (int i = 0; i < 6; ++i) {
    inbox_.SetDequeued(static_cast<uint64_t>(i), 0);  // all but the newest run, and never end
    ASSERT_TRUE(inbox_.Submit(SomeSequence()).ok());
  }
  inbox_.SetDequeued(6, 0);
  const absl::StatusOr<RequestId> refused = inbox_.Submit(SomeSequence());
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(inbox_.live(), 6);
}

TEST_F(InboxTest, StaysClosedOnceStopped) {
  inbox_.Stop();
  inbox_.StartDraining();
  EXPECT_EQ(inbox_.Submit(SomeSequence()).status().message(), "the model has stopped");
  Exchange();
  EXPECT_TRUE(mail_.stop);
}

}  // namespace
}  // namespace dunlin::engine
