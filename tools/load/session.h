// SPDX-License-Identifier: Apache-2.0
// Runs a load test: opens the client, the dataset and the server's metrics, and runs once or as a sweep.
// Thread rule: one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/load/options.h"
#include "tools/load/result.h"
#include "tools/load/server_watch.h"

namespace boost::asio {
class io_context;
}

namespace dunlin::tools::load {

class Session {
 public:
  // Checks the options; opens no connection. Errors: INVALID_ARGUMENT.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const LoadOptions& options);

  ~Session();

  // With --sweep: the result at the knee, with "sweep" {unit, knee, steps} added; without a knee, that of the first
  // step. Errors: UNAVAILABLE, NOT_FOUND, INVALID_ARGUMENT of a dataset's file.
  absl::StatusOr<Json> Run();

  bool interrupted() const { return interrupted_; }
  // The limits of --check and --max-errors that the result violates, one line each; and that nothing worked.
  std::vector<std::string> Violations(const Json& result) const;

 private:
  explicit Session(const LoadOptions& options);

  absl::Status Parse();
  absl::Status Connect(const LoadShape& shape);
  absl::Status OpenPrompts(int32_t vocab_size);
  absl::StatusOr<Json> RunOnce(const LoadShape& shape);
  absl::Status ReadAfter(double fds_before);
  absl::StatusOr<Json> RunSweep();

  LoadOptions options_;
  const std::unique_ptr<boost::asio::io_context> io_;
  Slo slo_;
  std::vector<Check> checks_;
  std::vector<MixEntry> mix_;
  std::unique_ptr<LoadClient> client_;  // during a run
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<ServerWatch> watch_;  // null without --server-metrics
  bool interrupted_ = false;
};

}  // namespace dunlin::tools::load
