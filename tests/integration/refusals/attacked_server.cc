// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/refusals/attacked_server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLongestStart = std::chrono::seconds(60);  // of a machine that has much else to do
constexpr int kEndless = 30000;

// Calls `what` until it is "", or the time is over; its last word.
std::string Until(const std::function<std::string()>& what) {
  const auto end = Clock::now() + kLongestStart;
  while (true) {
    std::string left = what();
    if (left.empty() || Clock::now() > end) return left;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Whether gRPC named the thread: its pools grow and shrink.
bool IsOfGrpc(const std::string& name) {
  constexpr const char* kPrefixes[] = {"default-exec", "event_engine", "grpc_", "grpcpp_", "nexting_", "resolver-exec"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&name](const char* prefix) { return name.rfind(prefix, 0) == 0; });
}

// What each descriptor of a process is, and the addresses and state of its TCP connections, as /proc has them.
std::string DescriptorsOf(pid_t pid) {
  std::map<std::string, std::string> connections;  // by inode: "local remote state" in hexadecimal
  std::ifstream tcp("/proc/net/tcp");
  std::string line;
  std::getline(tcp, line);  // the names of the columns
  while (std::getline(tcp, line)) {
    const std::vector<std::string> columns = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (columns.size() > 9) connections[columns[9]] = absl::StrCat(columns[1], " ", columns[2], " ", columns[3]);
  }
  std::string all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"), error)) {
    const std::string what = std::filesystem::read_symlink(entry.path(), error).string();
    absl::StrAppend(&all, "\n  ", entry.path().filename().string(), " ", what);
    const std::vector<std::string> parts = absl::StrSplit(what, absl::ByAnyChar("[]"));
    const auto found = parts.size() > 1 ? connections.find(parts[1]) : connections.end();
    if (found != connections.end()) absl::StrAppend(&all, " ", found->second);
  }
  return all;
}

// A generation that is read as it comes, until it is cancelled.
class HeldCall {
 public:
  HeldCall(const std::string& address, const char* model)
      : sent_(Generate(absl::StrCat("model: \"", model, "\" token_ids { ids: [1, 2, 3] } stopping { max_tokens: ",
                                    kEndless, " ignore_eos: true } output { omit_text: true }"))) {
    sent_.deadline = std::chrono::hours(24);  // none that it would be refused for
    // One that finds no room is sent again: another client's may have been in its place.
    const auto end = Clock::now() + kLongestStart;
    do {
      call_ = std::make_unique<WireCall>(address, sent_);
      std::string message;
      if (call_->Send(sent_.message) && call_->HalfClose() && call_->Read(&message)) {
        thread_ = std::thread([this] { last_ = call_->Finish(); });
        return;
      }
    } while (Clock::now() < end);
    ADD_FAILURE() << "a generation that is to be held does not begin: " << call_->Finish().status.error_message();
  }
  ~HeldCall() {
    if (!thread_.joinable()) return;
    call_->Cancel();
    thread_.join();
    EXPECT_EQ(last_.status.error_code(), grpc::StatusCode::CANCELLED) << "ended meanwhile";
  }
  HeldCall(const HeldCall&) = delete;
  HeldCall& operator=(const HeldCall&) = delete;

 private:
  Sent sent_;
  std::unique_ptr<WireCall> call_;
  Reply last_;
  std::thread thread_;
};

}  // namespace

AttackedServer::AttackedServer(const std::string& config)
    : process_(absl::StrCat(DUNLIN_SOURCE_DIR, "/tests/integration/refusals/", config)) {
  const std::string metrics = HttpGet(process_.http(), "/metrics");
  const std::regex series("\ndunlin_kv_pages_used\\{model_name=\"([^\"]+)\"\\}");
  for (std::sregex_iterator it(metrics.begin(), metrics.end(), series); it != std::sregex_iterator(); ++it) {
    models_.push_back((*it)[1]);
  }
  EXPECT_FALSE(models_.empty());
}

Held AttackedServer::held() const {
  const std::string folder = absl::StrCat("/proc/", process_.pid(), "/");
  Held held;
  size_t pages = 0;
  std::ifstream statm(folder + "statm");
  statm >> pages >> pages;
  held.resident_bytes = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::error_code error;
  std::ptrdiff_t num_workers = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "task", error)) {
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm"), name);
    ++(IsOfGrpc(name) ? held.grpc_threads : held.threads);
    std::ifstream children(entry.path() / "children");
    num_workers += std::distance(std::istream_iterator<pid_t>(children), {});
  }
  held.descriptors = static_cast<int>(std::distance(std::filesystem::directory_iterator(folder + "fd", error), {}));
  held.descriptors -= static_cast<int>(num_workers);  // each is on a socket; they start when they are needed and stay
  return held;
}

double AttackedServer::Gauge(const std::string& name, const std::string& model) const {
  const std::string series = model.empty() ? name : absl::StrCat(name, "{model_name=\"", model, "\"}");
  return MetricValue(HttpGet(process_.http(), "/metrics"), series);
}

std::string AttackedServer::WaitUntilIdle() const {
  return Until([this] {
    const std::string metrics = HttpGet(process_.http(), "/metrics");
    std::string left;
    const auto expect_none = [&metrics, &left](const std::string& series) {
      const double value = MetricValue(metrics, series);
      if (value != 0) absl::StrAppend(&left, series, " is ", value, "; ");
    };
    expect_none("dunlin_requests_in_flight");
    expect_none("dunlin_queued_bytes");
    for (const std::string& model : models_) {
      for (const char* name : {"vllm:num_requests_running", "vllm:num_requests_waiting", "dunlin_kv_pages_used"}) {
        expect_none(absl::StrCat(name, "{model_name=\"", model, "\"}"));
      }
    }
    return left;
  });
}

std::string AttackedServer::WaitUntilBackAt(const Held& before, size_t bytes) const {
  std::string excess = Until([&] {
    const Held now = held();
    std::string left;
    const auto expect_most = [&left](const char* what, auto value, auto most) {
      if (value > most) absl::StrAppend(&left, what, " ", value, ", more than ", most, "; ");
    };
    const int num_processors = static_cast<int>(std::thread::hardware_concurrency());
    expect_most("threads:", now.threads, before.threads);
    expect_most("threads of gRPC:", now.grpc_threads, before.grpc_threads + 2 * num_processors);
    expect_most("descriptors:", now.descriptors, before.descriptors);
    expect_most("resident bytes:", now.resident_bytes, before.resident_bytes + bytes);
    return left;
  });
  if (absl::StrContains(excess, "descriptors:")) absl::StrAppend(&excess, DescriptorsOf(process_.pid()));
  return excess;
}

Reply AttackedServer::Play(const Sent& sent) const {
  std::vector<std::unique_ptr<HeldCall>> held;
  held.reserve(sent.held.size());
  for (const char* model : sent.held) held.push_back(std::make_unique<HeldCall>(process_.grpc(), model));
  const auto await = [this](const char* gauge, double value) {
    EXPECT_EQ(Until([&] { return Gauge(gauge, kSlowModel) == value ? "" : gauge; }), "");
  };
  WireCall call(process_.grpc(), sent);
  std::string message;
  for (const Step step : sent.steps) {
    switch (step) {
      case Step::kSend:
        call.Send(sent.message);
        break;
      case Step::kHalfClose:
        call.HalfClose();
        break;
      case Step::kRead:
        call.Read(&message);
        break;
      case Step::kCancel:
        call.Cancel();
        break;
      case Step::kAwaitRunning:
        await("vllm:num_requests_running", 1);
        break;
      case Step::kAwaitWaiting:
        await("vllm:num_requests_waiting", 1);
        break;
      case Step::kAwaitIdle:
        await("vllm:num_requests_running", 0);
        break;
      case Step::kAwaitNoneWaiting:
        await("vllm:num_requests_waiting", 0);
        break;
      case Step::kReadAll:
        while (call.Read(&message)) {
        }
        break;
    }
  }
  Reply reply = call.Finish();
  held.clear();
  // The neighbour's may be one. The next row finds nothing of this one's.
  EXPECT_EQ(Until([&] { return Gauge("dunlin_requests_in_flight") <= 1 ? "" : "requests are in flight"; }), "");
  return reply;
}

}  // namespace dunlin::integration
