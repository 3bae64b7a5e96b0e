// From options to a result: opens the client, the dataset and the server's metrics, and runs once or as a sweep.
// Thread rule: one thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/load/options.h"
#include "server/load/result.h"
#include "server/load/server_watch.h"

namespace dunlin::server::load {

class Session {
 public:
  // Checks the options; contacts nobody. Errors: INVALID_ARGUMENT.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const LoadOptions& options);

  // Of --sweep the result at the knee, with "sweep" {unit, knee, steps} beside it; without a knee that of the first
  // step. Errors: UNAVAILABLE, NOT_FOUND, INVALID_ARGUMENT of a dataset's file.
  absl::StatusOr<Json> Run();

  bool interrupted() const { return interrupted_; }
  // What --check and --max-errors say against the result, one line each.
  std::vector<std::string> Violations(const Json& result) const;

 private:
  explicit Session(const LoadOptions& options) : options_(options) {}

  absl::Status Parse();
  absl::Status Connect(const LoadShape& shape);
  absl::Status OpenPrompts(int32_t vocab_size);
  absl::StatusOr<Json> RunOnce(const LoadShape& shape);
  absl::Status ReadAfter();
  absl::StatusOr<Json> RunSweep();

  LoadOptions options_;
  boost::asio::io_context io_{1};
  Slo slo_;
  std::vector<Check> checks_;
  std::vector<MixEntry> mix_;
  std::unique_ptr<LoadClient> client_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<ServerWatch> watch_;  // null without --server-metrics
  bool interrupted_ = false;
};

}  // namespace dunlin::server::load
