// SPDX-License-Identifier: Apache-2.0
#include "server/transport/zmq/event_publisher.h"

#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/thread_name.h"

namespace dunlin::server {
namespace {

constexpr size_t kBatchesAtOnce = 256;     // that are read, and held in memory, at a time
constexpr int64_t kMaxPeerMessage = 1024;  // subscriptions and replay requests
constexpr uint64_t kEndOfReplay = ~uint64_t{0};

struct CloseContext {
  void operator()(void* context) const { zmq_ctx_term(context); }
};
struct CloseSocket {
  void operator()(void* socket) const { zmq_close(socket); }
};
using Context = std::unique_ptr<void, CloseContext>;
using Socket = std::unique_ptr<void, CloseSocket>;

class EventFd {
 public:
  EventFd() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~EventFd() {
    if (fd_ >= 0) close(fd_);
  }
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;
  int fd() const { return fd_; }
  void Signal() const {
    const uint64_t one = 1;
    (void)!write(fd_, &one, sizeof(one));  // it only fails when the counter is full, and then it is signalled already
  }
  void Clear() const {
    uint64_t count = 0;
    (void)!read(fd_, &count, sizeof(count));
  }

 private:
  const int fd_;
};

std::array<char, 8> BigEndian(uint64_t value) {
  std::array<char, 8> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(value >> (8 * (7 - i)));
  return bytes;
}

uint64_t FromBigEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = (value << 8) | static_cast<uint8_t>(byte);
  return value;
}

// Without waiting; false when the peer does not take it.
bool Send(void* socket, std::string_view frame, bool more) {
  return zmq_send(socket, frame.data(), frame.size(), ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0;
}

// A whole message, without waiting; empty if there is none.
std::vector<std::string> Receive(void* socket) {
  std::vector<std::string> frames;
  int more = 1;
  while (more != 0) {
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    if (zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&frame);
      return {};
    }
    frames.emplace_back(static_cast<const char*>(zmq_msg_data(&frame)), zmq_msg_size(&frame));
    more = zmq_msg_more(&frame);
    zmq_msg_close(&frame);
  }
  return frames;
}

// "tcp://127.0.0.1:0" is ZeroMQ's "tcp://127.0.0.1:*".
std::string WithWildcardPort(const std::string& endpoint) {
  if (!endpoint.ends_with(":0")) return endpoint;
  return endpoint.substr(0, endpoint.size() - 1) + "*";
}

// Sets *endpoint to the one that was bound.
absl::StatusOr<Socket> Bind(void* context, int type, int hwm, std::string* endpoint) {
  Socket socket(zmq_socket(context, type));
  if (socket == nullptr) return absl::UnavailableError(absl::StrCat("ZeroMQ socket: ", zmq_strerror(errno)));
  const int no_linger = 0;
  const int64_t max_message = kMaxPeerMessage;
  zmq_setsockopt(socket.get(), ZMQ_SNDHWM, &hwm, sizeof(hwm));
  zmq_setsockopt(socket.get(), ZMQ_LINGER, &no_linger, sizeof(no_linger));
  zmq_setsockopt(socket.get(), ZMQ_MAXMSGSIZE, &max_message, sizeof(max_message));
  if (zmq_bind(socket.get(), WithWildcardPort(*endpoint).c_str()) != 0) {
    const bool malformed = errno == EINVAL || errno == EPROTONOSUPPORT;
    return absl::Status(malformed ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kUnavailable,
                        absl::StrCat("cannot bind ", *endpoint, ": ", zmq_strerror(errno)));
  }
  std::array<char, 256> bound{};
  size_t size = bound.size();
  if (zmq_getsockopt(socket.get(), ZMQ_LAST_ENDPOINT, bound.data(), &size) == 0) *endpoint = bound.data();
  return socket;
}

}  // namespace

struct EventPublisher::State final : engine::KvEventListener {
  ~State() override {
    stop = true;
    signal.Signal();
    if (thread.joinable()) thread.join();
  }

  void OnKvEvents() override { signal.Signal(); }

  void Run() {
    std::array<zmq_pollitem_t, 2> items = {{{nullptr, signal.fd(), ZMQ_POLLIN, 0}, {router.get(), 0, ZMQ_POLLIN, 0}}};
    const int num_items = router == nullptr ? 1 : 2;
    while (!stop) {
      if (zmq_poll(items.data(), num_items, -1) < 0 && errno != EINTR) {
        spdlog::error("KV events: {}; no more are published", zmq_strerror(errno));
        return;
      }
      signal.Clear();
      Publish();
      while (num_items == 2 && !stop && AnswerReplay()) {
      }
    }
  }

  // What is published while nobody looks is not lost: the log keeps it.
  void Publish() {
    while (!stop) {
      std::vector<engine::KvEventBatch> batches;
      if (!log->Read(published, kBatchesAtOnce, &batches).ok()) {
        published = log->oldest() - 1;  // the log has moved on: followers see the gap
        continue;
      }
      if (batches.empty()) return;
      for (const engine::KvEventBatch& batch : batches) {
        published = batch.number;
        if (Send(pub.get(), options.topic, true) && Send(pub.get(), Sequence(batch), true)) {
          Send(pub.get(), Payload(batch), false);
        }
      }
    }
  }

  // One request; false if there is none. Whatever is no request is dropped.
  bool AnswerReplay() {
    const std::vector<std::string> request = Receive(router.get());
    if (request.empty()) return false;
    if (request.size() != 3 || !request[1].empty() || request[2].size() != 8) return true;
    const std::string& peer = request[0];
    uint64_t after = FromBigEndian(request[2]);  // the number of the batch before it
    std::vector<engine::KvEventBatch> batches;
    while (!stop) {
      batches.clear();
      if (after <= log->last()) after = std::max(after, log->oldest() - 1);
      if (!log->Read(after, kBatchesAtOnce, &batches).ok() || batches.empty()) break;
      for (const engine::KvEventBatch& batch : batches) Reply(peer, Sequence(batch), Payload(batch));
      after = batches.back().number;
    }
    const std::array<char, 8> end = BigEndian(kEndOfReplay);
    Reply(peer, {end.data(), end.size()}, "");
    return true;
  }

  void Reply(const std::string& peer, std::string_view sequence, std::string_view payload) {
    if (Send(router.get(), peer, true) && Send(router.get(), "", true) && Send(router.get(), sequence, true)) {
      Send(router.get(), payload, false);
    }
  }

  static std::string Sequence(const engine::KvEventBatch& batch) {
    const std::array<char, 8> bytes = BigEndian(batch.number - 1);
    return std::string(bytes.data(), bytes.size());
  }

  std::string Payload(const engine::KvEventBatch& batch) const {
    const double age = static_cast<double>(clock() - batch.published) * 1e-9;
    return encode(batch, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) - age);
  }

  EventPublisherOptions options;
  std::shared_ptr<engine::KvEventLog> log;
  engine::Clock clock = nullptr;
  Encode encode = nullptr;
  EventFd signal;
  std::atomic<bool> stop{false};
  uint64_t published = 0;  // number of the last batch; the thread's
  Context context;
  Socket pub;
  Socket router;  // null: no replay
  std::thread thread;
};

absl::StatusOr<std::unique_ptr<EventPublisher>> EventPublisher::Start(const EventPublisherOptions& options,
                                                                      std::shared_ptr<engine::KvEventLog> log,
                                                                      engine::Clock clock, Encode encode) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->log = std::move(log);
  state->clock = clock;
  state->encode = encode;
  state->context = Context(zmq_ctx_new());
  if (state->context == nullptr || state->signal.fd() < 0) return absl::UnavailableError("no descriptors for ZeroMQ");
  absl::StatusOr<Socket> pub = Bind(state->context.get(), ZMQ_PUB, options.hwm, &state->options.endpoint);
  if (!pub.ok()) return pub.status();
  state->pub = *std::move(pub);
  if (!options.replay_endpoint.empty()) {
    absl::StatusOr<Socket> router =
        Bind(state->context.get(), ZMQ_ROUTER, options.hwm, &state->options.replay_endpoint);
    if (!router.ok()) return router.status();
    state->router = *std::move(router);
  }
  if (!state->log->AddListener(state.get())) return absl::UnavailableError("too many readers of KV events");
  state->published = state->log->last();
  state->thread = std::thread([running = state.get()] {
    engine::NameThread("kv-events");
    running->Run();
  });
  return std::unique_ptr<EventPublisher>(new EventPublisher(std::move(state)));
}

EventPublisher::EventPublisher(std::unique_ptr<State> state) : state_(std::move(state)) {}

EventPublisher::~EventPublisher() {
  state_->log->RemoveListener(state_.get());
}

const EventPublisherOptions& EventPublisher::options() const {
  return state_->options;
}

}  // namespace dunlin::server
