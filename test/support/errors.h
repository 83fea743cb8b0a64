// EXPECT_FAULT(statement, fault, part): the statement fails with this fault, and its message holds
// this part.
#pragma once

#include <gtest/gtest.h>

#include "base/error.h"

#define EXPECT_FAULT(statement, expected_fault, part)                                             \
  try {                                                                                           \
    static_cast<void>(statement);                                                                 \
    ADD_FAILURE() << #statement << ": expected an error, found none";                             \
  } catch (const ::deltasane::Error& error) {                                                     \
    EXPECT_EQ(error.fault(), expected_fault) << error.what();                                     \
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what(); \
  }
