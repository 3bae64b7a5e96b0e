// SPDX-License-Identifier: Apache-2.0
// The memory plan holds under everything at once that makes a server grow: a server that may plan with nine tenths of
// 512 MiB, its workers included, stays within its plan and a tenth, while a neighbour is answered and health is good.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::integration {
namespace {

using nlohmann::json;
using server::RawClient;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr double kMB = 1e6;
constexpr auto kAttack = std::chrono::seconds(8);
constexpr auto kLongestAttack = std::chrono::seconds(90);       // on a machine with much else to do
constexpr const char* kTaken[] = {"n = 8 200", "schemas 200"};  // answers that come while the rest is refused
constexpr int kMinAnswers = 10;                                 // of the neighbour

std::string Repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::string PostBody(const std::string& address, const std::string& path, const std::string& body) {
  RawClient client(address);
  client.Send("POST " + path +
              " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n" +
              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  return client.ReadAll();
}

std::string ConstrainedBody(const std::string& kind, const json& value, int max_tokens) {
  return json{{"model", "demo"}, {"prompt", "a"}, {"max_tokens", max_tokens}, {"structured_outputs", {{kind, value}}}}
      .dump();
}

std::string ChatBody(const std::string& content) {
  return json{{"model", "demo"}, {"max_tokens", 4}, {"messages", {{{"role", "user"}, {"content", content}}}}}.dump();
}

// 3 MB whose values take 48 MiB, and 2 MB that are a prompt.
std::string ManyValues(int i) {
  if (i % 2 == 0) return R"({"model":"demo","prompt":"a","metadata":{"a":[0)" + Repeated(",0", 1500000) + "]}}";
  return R"({"model":"demo","prompt":[7)" + Repeated(",7", 1000000) + "]}";
}

// 10 KB, none like another.
std::string Regex(int i) {
  std::string regex;
  for (int k = 0; regex.size() < 10000; ++k) {
    regex += "(" + std::string(1, static_cast<char>('a' + k % 26)) + std::to_string(1000 * i + k) + "|[a-z]{1,3})*";
  }
  return ConstrainedBody("regex", regex, 4);
}

std::string EightOutputs(int i) {
  return R"({"model":"demo","prompt":"a b","max_tokens":400,"n":8,"logprobs":5,)"
         R"("structured_outputs":{"regex":"[a-z]{1,)" +
         std::to_string(60 + i % 7) + R"(}( [a-z]{1,9})*"}})";
}

std::string Schema(int i) {
  json properties;
  for (int k = 0; k < 60; ++k) {
    properties["p" + std::to_string(k)] =
        k % 4 != 0 ? json{{"enum", {i, k, "v" + std::to_string(k)}}}
                   : json{{"type", "string"}, {"pattern", "^[a-z]{" + std::to_string(k % 30) + ",80}x"}};
  }
  return ConstrainedBody("json", {{"type", "object"}, {"title", std::to_string(i)}, {"properties", properties}}, 64);
}

std::string LongText(int i) {
  return i % 2 == 0 ? ChatBody(Repeated("a ", 200000))
                    : json{{"model", "demo"}, {"prompt", Repeated("ab cd ", 500000)}}.dump();
}

// Makes the template double texts and lists.
std::string TemplateThatGrows(int i) {
  return ChatBody(i % 2 == 0 ? "grow a text" : "grow a list");
}

constexpr char kTemplate[] =
    "{% set ns = namespace(x='aaaaaaaaaaaaaaaa', y=[1]) %}{% set word = messages[0].content %}"
    "{% if word == 'grow a text' %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{% endif %}"
    "{% if word == 'grow a list' %}{% for i in range(60) %}{% set ns.y = [ns.y, ns.y] | map('string') | list %}"
    "{% endfor %}{% endif %}{{ word }}";

struct Attack {
  const char* name;
  const char* path;
  std::string (*body)(int);
  int clients;
};
const Attack kAttacks[] = {
    {"values", "/v1/completions", ManyValues, 8},       {"regex", "/v1/completions", Regex, 8},
    {"n = 8", "/v1/completions", EightOutputs, 32},     {"schemas", "/v1/completions", Schema, 16},
    {"long chat", "/v1/chat/completions", LongText, 8}, {"template", "/v1/chat/completions", TemplateThatGrows, 4},
};

bool IsWorker(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  std::string line;
  std::getline(file, line);
  return line.find("text-worker") != std::string::npos;
}

// Of a process and the workers below it, what is shared counted once. A child that is only being started still has all
// of its parent's memory, and would count it again.
double HeldBytes(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  double bytes = 0;
  std::ifstream file(process + "/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("Pss:", 0) == 0) bytes += std::stod(line.substr(4)) * 1024;
  }
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator(process + "/task", error)) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) bytes += IsWorker(child) ? HeldBytes(child) : 0;
  }
  return bytes;
}

class Attackers {
 public:
  explicit Attackers(const std::string& address) : address_(address) {
    for (const Attack& attack : kAttacks) {
      for (int i = 0; i < attack.clients; ++i) threads_.emplace_back([this, &attack] { Run(attack); });
    }
  }
  bool HasAnswers(const std::string& attack_and_status) {
    const std::lock_guard lock(mutex_);
    return answers_.count(attack_and_status) > 0;
  }
  // Answers by attack and status.
  std::map<std::string, int> Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    return answers_;
  }

 private:
  void Run(const Attack& attack) {
    while (!stop_) {
      const std::string answer = PostBody(address_, attack.path, attack.body(next_++));
      const std::lock_guard lock(mutex_);
      ++answers_[std::string(attack.name) + " " + (answer.size() > 12 ? answer.substr(9, 3) : "none")];
    }
  }

  const std::string address_;
  std::atomic<bool> stop_{false};
  std::atomic<int> next_{0};
  std::mutex mutex_;  // guards what follows
  std::map<std::string, int> answers_;
  std::vector<std::thread> threads_;
};

double PlannedBytes(const std::string& log) {
  std::smatch match;
  return std::regex_search(log, match, std::regex(R"(requests: .*, (\d+) with the rest)")) ? std::stod(match[1]) : 0;
}

TEST(MemoryPlan, HoldsUnderEverythingAtOnce) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers hold memory of their own";
#endif
  const std::string file = testing::TempDir() + "/growing_template.jinja";
  std::ofstream(file) << kTemplate;
  ServerProcess server(DUNLIN_SOURCE_DIR "/configs/demo.json",
                       {"--set", "memory.limit_bytes=483183820", "--set", "models.0.kv_cache.memory_bytes=\"auto\"",
                        "--set", "models.0.chat_template=" + file});
  ASSERT_TRUE(server.ready()) << server.Log();
  const double planned = PlannedBytes(server.Log());
  ASSERT_GT(planned, 0) << server.Log();
  EXPECT_LE(planned, 490 * kMB);
  std::atomic<bool> stop = false;
  double most = 0;
  std::thread sampler([&] {
    while (!stop) {
      most = std::max(most, HeldBytes(server.pid()));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  const double before = HeldBytes(server.pid());
  Attackers attackers(server.http());
  int num_answered = 0;
  double slowest = 0;
  const auto goes_on = [&](Clock::duration passed) {
    const bool has_all =
        num_answered >= kMinAnswers &&
        std::all_of(std::begin(kTaken), std::end(kTaken), [&](auto what) { return attackers.HasAnswers(what); });
    return passed < (has_all ? kAttack : kLongestAttack);
  };
  for (const auto start = Clock::now(); goes_on(Clock::now() - start);) {
    const auto sent = Clock::now();
    const std::string answer =
        PostBody(server.http(), "/v1/completions", R"({"model":"demo","prompt":"A tale","max_tokens":4})");
    EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200 "));
    EXPECT_EQ(HttpGet(server.http(), "/readyz"), "ok\n");
    slowest = std::max(slowest, std::chrono::duration<double>(Clock::now() - sent).count());
    ++num_answered;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::map<std::string, int> answers = attackers.Stop();
  EXPECT_THAT(PostBody(server.http(), "/v1/chat/completions", ChatBody("hello")), HasSubstr("HTTP/1.1 200 "));
  stop = true;
  sampler.join();
  std::printf("planned %.0f MB, before %.0f, most %.0f; neighbour: %d answers, slowest %.2f s\n", planned / kMB,
              before / kMB, most / kMB, num_answered, slowest);
  for (const auto& [what, count] : answers) std::printf("  %s: %d\n", what.c_str(), count);
  EXPECT_LE(most, 1.1 * planned);
  EXPECT_LE(most, 512.0 * 1048576) << "the container";
  EXPECT_GE(num_answered, kMinAnswers);
  for (const Attack& attack : kAttacks) {
    EXPECT_EQ(answers.count(std::string(attack.name) + " none"), 0U) << attack.name;
  }
  for (const char* what : kTaken) EXPECT_GT(answers.count(what), 0U) << what;
}

}  // namespace
}  // namespace dunlin::integration
