// SPDX-License-Identifier: Apache-2.0
// SIGTERM, SIGINT and SIGHUP as events to wait for. Block first, before any thread is started, so that every thread
// inherits the mask; then only WaitForRequest receives them.
#pragma once

#include "absl/time/time.h"

namespace dunlin::server {

// SIGTERM and SIGINT request a stop, SIGHUP a reload of the config.
enum class SignalRequest { kNone, kStop, kReload };

// Blocks them in this thread and those it starts; ignores SIGPIPE.
void BlockSignals();

// Waits for one of them; kNone if `timeout` passed first.
SignalRequest WaitForRequest(absl::Duration timeout);

}  // namespace dunlin::server
