// EXPECT_FAULT(statement, fault, part): the statement throws an Error with this fault, whose
// message contains this part.
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
