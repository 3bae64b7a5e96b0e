// SPDX-License-Identifier: Apache-2.0
// The side of a worker process (worker_process.h). Thread rule: the main thread, in a process that does nothing else.
#pragma once

namespace dunlin::server {

// Whether the program was started as a worker.
bool IsTextWorker(int argc, char** argv);

// Limits the process, then answers the requests of its socket until that is closed. Returns its exit status.
int RunTextWorker(char** argv);

}  // namespace dunlin::server
