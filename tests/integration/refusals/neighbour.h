// SPDX-License-Identifier: Apache-2.0
// A client whose streams run beside the rows: one seeded request, again and again, each of whose answers must be the
// same bytes, and come without a gap. Thread rule: one thread; its streams are read on a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "dunlin/v1/generation.grpc.pb.h"

namespace dunlin::integration {

class Neighbour {
 public:
  // Runs one stream, alone: what the others must be.
  explicit Neighbour(const std::string& address);
  ~Neighbour();
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  // Starts the streams and waits for the first token.
  void Start();
  // Waits until the stream in progress has ended. What was not as it must be is a failure of the test.
  void Stop();

  // Since Start: complete streams, those that found the server full, and the longest time between two messages of a
  // stream or before its first.
  int num_streams() const { return num_streams_; }
  int num_refused() const { return num_refused_; }
  std::chrono::milliseconds longest_gap() const { return std::chrono::milliseconds(longest_gap_ms_); }

 private:
  // Token ids, text and log-probabilities; "" when the server is too busy for another stream.
  std::string RunStream();
  void Run();

  const std::unique_ptr<v1::GenerationService::Stub> stub_;
  std::string alone_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> has_token_{false};
  std::atomic<int> num_streams_{0};
  std::atomic<int> num_refused_{0};
  std::atomic<int64_t> longest_gap_ms_{0};
};

}  // namespace dunlin::integration
