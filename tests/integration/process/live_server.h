// SPDX-License-Identifier: Apache-2.0
// A server whose models come and go: a folder with its config and copies of the demo model, and what clients see.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "dunlin/v1/model.grpc.pb.h"
#include "tests/integration/process/child.h"
#include "vllm/control.grpc.pb.h"

namespace dunlin::integration {

// Removed with its object.
class LiveFolder {
 public:
  explicit LiveFolder(const std::string& name);
  ~LiveFolder();
  LiveFolder(const LiveFolder&) = delete;
  LiveFolder& operator=(const LiveFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::string config() const { return path("config.json"); }
  // The demo model's files, copied.
  std::string CopyModel(const std::string& name) const;
  // A model of the config: FP32, a small KV cache.
  static nlohmann::json Model(const std::string& name, const std::string& path);
  void WriteConfig(const std::vector<nlohmann::json>& models) const;

 private:
  const std::string path_;
};

// What a client is told of one completion: the body's text, or the whole reply where it is not a 200.
struct Completion {
  bool ok = false;
  std::string text;
};
Completion CompleteOnce(const std::string& http, const std::string& model);

// The whole reply to a GET, and to a POST.
std::string GetOnce(const std::string& http, const std::string& path);
std::string PostOnce(const std::string& http, const std::string& path, const std::string& body);

// Clients that complete the same prompt again and again, each on a thread of its own.
class SteadyLoad {
 public:
  SteadyLoad(const std::string& http, const std::string& model, const std::string& expected, int num_clients);
  ~SteadyLoad() { Stop(); }
  SteadyLoad(const SteadyLoad&) = delete;
  SteadyLoad& operator=(const SteadyLoad&) = delete;

  void Stop();
  int num_completed() const { return num_completed_; }
  // Whether so many completions have ended within 60 s.
  bool ComesToCompleted(int count) const;
  // Answers that were not the expected text.
  std::vector<std::string> failures() const;

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> num_completed_{0};
  mutable std::mutex mutex_;  // guards failures_
  std::vector<std::string> failures_;
  std::vector<std::thread> threads_;
};

// ModelService of a server.
class ModelAdmin {
 public:
  explicit ModelAdmin(const std::string& grpc);

  grpc::Status Load(const std::string& model);
  grpc::Status Unload(const std::string& model);
  grpc::Status Reload(const std::string& model);
  // vLLM's, of every model that generates.
  grpc::Status Sleep();
  grpc::Status WakeUp();
  bool IsSleeping();
  // An empty status for a model that is unknown.
  v1::ModelStatus StatusOf(const std::string& model);
  // Whether it comes to this state within 60 s.
  bool ComesTo(const std::string& model, v1::ModelState state);

 private:
  const std::unique_ptr<v1::ModelService::Stub> stub_;
  const std::unique_ptr<::vllm::Control::Stub> control_;
};

// Whether a series of /metrics comes to this value within 60 s.
bool ComesToValue(const ServerProcess& server, const std::string& series, double value);
// Whether the process comes to hold at most so many bytes of memory, within 60 s.
bool ComesToMemory(const ServerProcess& server, double bytes);
double ResidentBytesOf(const ServerProcess& server);

}  // namespace dunlin::integration
