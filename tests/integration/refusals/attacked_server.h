// SPDX-License-Identifier: Apache-2.0
// The server under attack, in a process of its own, and what it holds. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/integration/refusals/row.h"
#include "tests/integration/refusals/wire_call.h"

namespace dunlin::integration {

// Of the process, as /proc has it.
struct Held {
  size_t resident_bytes = 0;
  int threads = 0;  // the server's own
  int grpc_threads = 0;
  int descriptors = 0;  // but for those of its text workers
};

class AttackedServer {
 public:
  // config: a file of this folder.
  explicit AttackedServer(const std::string& config);

  ServerProcess& process() { return process_; }
  Held held() const;
  // A gauge of a model in /metrics, or of the server when `model` is empty.
  double Gauge(const std::string& name, const std::string& model = "") const;
  // Waits until no request, page, queued byte or sequence is left; "" when none is, else what is.
  std::string WaitUntilIdle() const;
  // Waits until no more descriptors and threads are there than `before`, and at most `bytes` more memory; "" or what
  // is.
  std::string WaitUntilBackAt(const Held& before, size_t bytes) const;

  // Plays the row's steps to the end of its call.
  Reply Play(const Sent& sent) const;

 private:
  ServerProcess process_;
  std::vector<std::string> models_;
};

}  // namespace dunlin::integration
