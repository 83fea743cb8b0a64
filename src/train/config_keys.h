// Every key of a training configuration, as it is declared where it is read (config.cpp).
#pragma once

#include <string>
#include <vector>

namespace deltasane::train {

struct ConfigKey {
  std::string section, key;
  std::string type;   // "text", "number", "whole number", "true or false"
  std::string value;  // if not given
  std::string what;
};

std::vector<ConfigKey> config_keys();

}  // namespace deltasane::train
