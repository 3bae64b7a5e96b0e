// SPDX-License-Identifier: Apache-2.0
// Every RPC and route of a server: those of the transports and of every front end, served or not. Const data, any
// thread.
#pragma once

#include "server/access/permissions.h"

namespace dunlin::server {

const EndpointTable& Endpoints();

}  // namespace dunlin::server
