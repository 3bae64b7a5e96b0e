// SPDX-License-Identifier: Apache-2.0
// The publisher against peers of ZeroMQ's own: a subscriber that loses messages and asks for them again.
#include "server/transport/zmq/event_publisher.h"

#include <gtest/gtest.h>
#include <zmq.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dunlin::server {
namespace {

constexpr int32_t kPageTokens = 4;
constexpr int kReceiveMs = 5000;
constexpr int kTryMs = 50;

engine::TimeNs Clock() {
  return 0;
}

// "number:kind.first token,..."
std::string AsText(const engine::KvEventBatch& batch, double) {
  std::string text = absl::StrCat(batch.number, ":");
  for (const engine::KvEvent& event : batch.events) {
    absl::StrAppend(&text, static_cast<int>(event.kind), ".", event.tokens.empty() ? -1 : event.tokens[0], ",");
  }
  return text;
}

// A cache of four pages, of which each call fills the next with a block of its own.
class Source {
 public:
  explicit Source(int32_t max_batches)
      : log_(std::make_shared<engine::KvEventLog>(engine::KvEventLogOptions{4, kPageTokens, max_batches, {}})),
        cache_(Options(log_->changes())) {}

  void AddBatch() {
    engine::PrefixChain chain = cache_.Root({}, "");
    const std::vector<engine::TokenId> tokens(kPageTokens, ++last_token_);
    const engine::PageId page = last_token_ % 4;
    cache_.Forget(page);
    cache_.Publish(tokens.data(), kPageTokens, &page, &chain);
    while (!log_->Publish(cache_, 0)) {
    }
  }
  const std::shared_ptr<engine::KvEventLog>& log() const { return log_; }

 private:
  static engine::PrefixCacheOptions Options(engine::PageChanges* changes) {
    engine::PrefixCacheOptions options;
    options.num_pages = 4;
    options.max_tokens_per_page = kPageTokens;
    options.changes = changes;
    return options;
  }

  std::shared_ptr<engine::KvEventLog> log_;
  engine::PrefixCache cache_;
  engine::TokenId last_token_ = 0;
};

class Peer {
 public:
  Peer(int type, const std::string& endpoint, const std::string& topic = "")
      : context_(zmq_ctx_new()), socket_(zmq_socket(context_, type)) {
    const int linger = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof(linger));
    if (type == ZMQ_SUB) zmq_setsockopt(socket_, ZMQ_SUBSCRIBE, topic.data(), topic.size());
    EXPECT_EQ(zmq_connect(socket_, endpoint.c_str()), 0) << endpoint;
  }
  ~Peer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void Send(const std::vector<std::string>& frames) {
    for (size_t i = 0; i < frames.size(); ++i) {
      zmq_send(socket_, frames[i].data(), frames[i].size(), i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
    }
  }
  // Empty after that time.
  std::vector<std::string> Receive(int timeout_ms = kReceiveMs) {
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &timeout_ms, sizeof(timeout_ms));
    std::vector<std::string> frames;
    size_t more = 1;
    size_t size = sizeof(more);
    while (more != 0) {
      std::string frame(4096, '\0');
      const int bytes = zmq_recv(socket_, frame.data(), frame.size(), 0);
      if (bytes < 0) return {};
      frame.resize(static_cast<size_t>(bytes));
      frames.push_back(std::move(frame));
      int more_parts = 0;
      size = sizeof(more_parts);
      zmq_getsockopt(socket_, ZMQ_RCVMORE, &more_parts, &size);
      more = static_cast<size_t>(more_parts);
    }
    return frames;
  }

 private:
  void* context_;
  void* socket_;
};

std::string Number(uint64_t value) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

class EventPublisherTest : public testing::Test {
 protected:
  void Start(int32_t max_batches = 100, const std::string& topic = "kv") {
    source_ = std::make_unique<Source>(max_batches);
    EventPublisherOptions options;
    options.endpoint = options.replay_endpoint = "tcp://127.0.0.1:0";
    options.topic = topic;
    auto publisher = EventPublisher::Start(options, source_->log(), &Clock, &AsText);
    ASSERT_TRUE(publisher.ok()) << publisher.status();
    publisher_ = *std::move(publisher);
  }
  // A subscriber that is known to be connected: it has seen a batch.
  std::unique_ptr<Peer> Subscriber(const std::string& topic, uint64_t* seen) {
    auto peer = std::make_unique<Peer>(ZMQ_SUB, publisher_->options().endpoint, topic);
    std::vector<std::string> message;
    for (int i = 0; i < 100 && message.empty(); ++i) {
      source_->AddBatch();
      message = peer->Receive(kTryMs);
    }
    EXPECT_EQ(message.size(), 3U);
    while (!message.empty()) {
      *seen = message[1].empty() ? 0 : static_cast<uint8_t>(message[1][7]);
      if (*seen + 1 == source_->log()->last()) return peer;
      message = peer->Receive();
    }
    return peer;
  }
  // What the ROUTER answers, without its end.
  std::vector<std::vector<std::string>> Replay(Peer* peer, uint64_t from) {
    peer->Send({"", Number(from)});
    std::vector<std::vector<std::string>> answers;
    while (true) {
      std::vector<std::string> answer = peer->Receive();
      EXPECT_EQ(answer.size(), 3U);
      if (answer.size() != 3) return answers;
      EXPECT_EQ(answer[0], "");
      if (answer[1] == Number(~uint64_t{0})) {
        EXPECT_EQ(answer[2], "");
        return answers;
      }
      answers.push_back(std::move(answer));
    }
  }

  std::unique_ptr<Source> source_;
  std::unique_ptr<EventPublisher> publisher_;
};

TEST_F(EventPublisherTest, BindsAFreePortAndSaysWhich) {
  Start();
  for (const std::string& endpoint : {publisher_->options().endpoint, publisher_->options().replay_endpoint}) {
    const std::vector<std::string> parts = absl::StrSplit(endpoint, ':');
    ASSERT_EQ(parts.size(), 3U) << endpoint;
    EXPECT_EQ(parts[1], "//127.0.0.1");
    EXPECT_NE(parts[2], "0");
  }
}

TEST_F(EventPublisherTest, SubscribersGetEachBatchWithItsNumber) {
  Start();
  uint64_t seen = 0;
  const auto peer = Subscriber("kv", &seen);
  for (int i = 0; i < 50; ++i) source_->AddBatch();
  for (int i = 0; i < 50; ++i) {
    const std::vector<std::string> message = peer->Receive();
    ASSERT_EQ(message.size(), 3U);
    EXPECT_EQ(message[0], "kv");
    EXPECT_EQ(message[1], Number(++seen));
    EXPECT_EQ(message[2].substr(0, message[2].find(':')), absl::StrCat(seen + 1));
  }
}

TEST_F(EventPublisherTest, WhatASubscriberHasLostIsReplayed) {
  Start();
  uint64_t seen = 0;
  auto peer = Subscriber("kv", &seen);
  peer.reset();  // it loses what comes now
  for (int i = 0; i < 20; ++i) source_->AddBatch();
  Peer replay(ZMQ_DEALER, publisher_->options().replay_endpoint);
  const auto answers = Replay(&replay, seen + 1);
  ASSERT_EQ(answers.size(), 20U);
  for (const std::vector<std::string>& answer : answers) {
    EXPECT_EQ(answer[1], Number(++seen));
    EXPECT_EQ(answer[2].substr(0, answer[2].find(':')), absl::StrCat(seen + 1));
  }
  EXPECT_EQ(seen + 1, source_->log()->last());
}

TEST_F(EventPublisherTest, AReplayHasWhatIsKept) {
  Start(/*max_batches=*/5);
  for (int i = 0; i < 20; ++i) source_->AddBatch();
  Peer replay(ZMQ_DEALER, publisher_->options().replay_endpoint);
  const auto from_start = Replay(&replay, 0);
  ASSERT_EQ(from_start.size(), 5U);
  EXPECT_EQ(from_start[0][1], Number(15));
  EXPECT_EQ(Replay(&replay, 18).size(), 2U);
  EXPECT_EQ(Replay(&replay, 20).size(), 0U);
  EXPECT_EQ(Replay(&replay, 1000).size(), 0U);
  EXPECT_EQ(Replay(&replay, ~uint64_t{0}).size(), 0U);
}

TEST_F(EventPublisherTest, DropsWhatIsNoRequest) {
  Start();
  for (int i = 0; i < 3; ++i) source_->AddBatch();
  Peer replay(ZMQ_DEALER, publisher_->options().replay_endpoint);
  replay.Send({"", "short"});
  replay.Send({"not empty", Number(0)});
  replay.Send({"alone"});
  replay.Send({"", Number(0), "more"});
  EXPECT_EQ(Replay(&replay, 0).size(), 3U) << "answers to none but the last";
}

TEST_F(EventPublisherTest, ABoundEndpointIsRefusedByName) {
  Start();
  EventPublisherOptions options;
  options.endpoint = publisher_->options().endpoint;
  const auto second = EventPublisher::Start(options, source_->log(), &Clock, &AsText);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find(options.endpoint), std::string::npos) << second.status();
  options.endpoint = "nonsense";
  EXPECT_EQ(EventPublisher::Start(options, source_->log(), &Clock, &AsText).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dunlin::server
