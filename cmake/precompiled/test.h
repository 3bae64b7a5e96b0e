// SPDX-License-Identifier: Apache-2.0
// Precompiled for the test programs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/precompiled/engine.h"
