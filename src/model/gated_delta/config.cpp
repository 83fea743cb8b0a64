#include "model/gated_delta/config.h"

#include <algorithm>
#include <charconv>

#include "base/printable.h"

namespace deltasane::gated_delta {
namespace {

constexpr std::string_view prefix = "gated_delta.";
constexpr std::string_view mixer_letters = "ral";  // by number of the mixer

template <class Setting>
std::string as_text(const Setting& setting) {
  if constexpr (std::is_same_v<Setting, std::string>) {
    return setting;
  } else if constexpr (std::is_same_v<Setting, double>) {
    return cat(setting);
  } else if constexpr (std::is_same_v<Setting, std::vector<Mixer>>) {
    std::string text;
    for (const Mixer mixer : setting) text += mixer_letters[size_t(mixer)];
    return text;
  } else if constexpr (std::is_same_v<Setting, std::vector<bool>>) {
    std::string text;
    for (const bool has : setting) text += has ? '1' : '0';
    return text;
  } else {
    return cat(int64_t(setting));
  }
}

template <class Setting>
bool parse(const std::string& text, Setting& setting) {
  const char *const begin = text.data(), *const end = begin + text.size();
  if constexpr (std::is_same_v<Setting, std::string>) {
    setting = text;
    return true;
  } else if constexpr (std::is_same_v<Setting, double>) {
    const auto [at, error] = std::from_chars(begin, end, setting);
    return error == std::errc() && at == end;
  } else if constexpr (std::is_same_v<Setting, std::vector<Mixer>>) {
    for (const char letter : text) {
      const size_t number = mixer_letters.find(letter);
      if (number == mixer_letters.npos) return false;
      setting.push_back(Mixer(number));
    }
    return true;
  } else if constexpr (std::is_same_v<Setting, std::vector<bool>>) {
    for (const char letter : text) {
      if (letter != '0' && letter != '1') return false;
      setting.push_back(letter == '1');
    }
    return true;
  } else {
    int64_t number = 0;
    const auto [at, error] = std::from_chars(begin, end, number);
    int64_t most = int64_t{1} << 40;
    if constexpr (std::is_same_v<Setting, bool>) most = 1;
    if constexpr (std::is_enum_v<Setting>) most = std::is_same_v<Setting, kernel::Rule> ? 3 : 2;
    if (error != std::errc() || at != end || number < 0 || number > most) return false;
    setting = Setting(number);
    return true;
  }
}

// Attention that loses its first tokens breaks: models put there what they do not need elsewhere.
constexpr int64_t kept_tokens = 4;

struct Title {
  std::string_view model_type, title;
};
constexpr Title titles[] = {{"delta_net", "DeltaNet"},
                            {"gated_deltanet", "Gated DeltaNet"},
                            {"kda", "Kimi Delta Attention"},
                            {"qwen3_5", "Qwen3.5"},
                            {"qwen3_5_moe", "Qwen3.5 with experts"},
                            {"qwen3_next", "Qwen3-Next"},
                            {"olmo_hybrid", "OLMo-Hybrid"},
                            {"kimi_linear", "Kimi-Linear"}};

}  // namespace

bool Config::has(Mixer mixer) const { return std::ranges::find(mixers, mixer) != mixers.end(); }

void store_settings(const Config& config, Metadata& metadata) {
  each_setting(config, [&](std::string_view name, const auto& setting) {
    metadata[cat(prefix, name)] = as_text(setting);
  });
}

Config stored_settings(const Metadata& metadata, std::string_view where) {
  Config config;
  each_setting(config, [&](std::string_view name, auto& setting) {
    const auto found = metadata.find(cat(prefix, name));
    if (found == metadata.end())
      fail(Fault::file, where, ": expected the metadata ", prefix, name, ", found none");
    if (!parse(found->second, setting))
      fail(Fault::file, where, ": ", prefix, name, ": expected a setting of its kind, found ",
           printable(found->second));
  });
  return config;
}

void expect_consistent(const Config& c, std::string_view where) {
  const auto expect = [&](bool holds, auto&&... what) {
    if (!holds) fail(Fault::file, where, ": ", what...);
  };
  const auto size = [&](const char* name, int64_t value, int64_t most = int64_t{1} << 24) {
    expect(value >= 1 && value <= most, name, ": expected 1 to ", most, ", found ", value);
  };
  size("layers", c.layers(), 10'000);
  size("vocabulary", c.vocabulary, int64_t{1} << 31), size("channels", c.channels);
  expect(c.experts.size() == c.mixers.size(), "experts: expected a setting for each of ",
         c.layers(), " layers, found ", c.experts.size());
  const auto eps = [&](const char* name, double value) {
    expect(value >= 0 && value < 1, name, ": expected 0 to 1, found ", value);
  };
  eps("norm_eps", c.norm_eps);
  if (c.has(Mixer::recurrent)) {
    size("key heads", c.key_heads, 1 << 16), size("value heads", c.value_heads, 1 << 16);
    size("key size", c.key_size, 256), size("value size", c.value_size, 1 << 16);
    expect(c.value_heads % c.key_heads == 0, "value heads: expected a multiple of ", c.key_heads,
           " key heads, found ", c.value_heads);
    expect(c.taps >= 0 && c.taps <= 16, "convolution: expected 0 to 16 taps, found ", c.taps);
    expect(c.rule != kernel::Rule::generalized, "rule: expected one with beta, found generalized");
    eps("output_norm_eps", c.output_norm_eps);
    if (c.rule == kernel::Rule::kda) size("decay rank", c.decay_rank);
  }
  if (c.has(Mixer::attention)) {
    size("heads", c.heads, 1 << 16), size("key and value heads", c.kv_heads, 1 << 16);
    size("head size", c.head_size, 1 << 16);
    expect(c.heads % c.kv_heads == 0, "heads: expected a multiple of ", c.kv_heads,
           " key and value heads, found ", c.heads);
    expect(c.rotary >= 0 && c.rotary <= c.head_size && c.rotary % 2 == 0,
           "rotary channels: expected an even number up to ", c.head_size, ", found ", c.rotary);
    expect(c.rotary == 0 || c.theta > 0, "rope_theta: expected a number above 0, found ", c.theta);
  }
  expect(c.window >= 0 && c.kept >= 0, "window: expected at least 1, found ", c.window);
  if (c.has(Mixer::latent)) {
    size("heads", c.heads, 1 << 16), size("latent size", c.latent_size);
    size("latent key size", c.latent_key_size), size("latent value size", c.latent_value_size);
    expect(c.shared_key_size >= 0, "shared key size: expected 0 or more, found ",
           c.shared_key_size);
    eps("latent_norm_eps", c.latent_norm_eps);
  }
  if (std::ranges::count(c.experts, false)) size("feed-forward", c.feed_forward);
  if (std::ranges::count(c.experts, true)) {
    size("experts", c.expert_count, 1 << 16), size("expert size", c.expert_size);
    expect(c.experts_used >= 1 && c.experts_used <= c.expert_count,
           "experts used: expected 1 to ", c.expert_count, ", found ", c.experts_used);
    expect(c.shared_expert_size >= 0, "shared expert size: expected 0 or more, found ",
           c.shared_expert_size);
  }
}

std::string title_of(const Config& config) {
  for (const Title& one : titles)
    if (one.model_type == config.model_type) return std::string(one.title);
  return config.model_type;
}

StateLayout state_layout(const Config& c) {
  StateLayout layout;
  for (int64_t n = 0; n < c.layers(); ++n)
    if (c.mixers[size_t(n)] == Mixer::recurrent && c.taps > 1)
      layout.add("convolution inputs", StateKind::convolution, n, {c.taps - 1, c.mixed_channels()});
  for (int64_t n = 0; n < c.layers(); ++n)
    if (c.mixers[size_t(n)] == Mixer::recurrent)
      layout.add("memory", StateKind::memory, n, {c.value_heads, c.value_size, c.key_size});
  for (int64_t n = 0; n < c.layers(); ++n) {
    if (c.mixers[size_t(n)] == Mixer::attention)
      layout.add("keys and values", StateKind::cache, n, {2, c.kv_heads, c.head_size});
    if (c.mixers[size_t(n)] == Mixer::latent)
      layout.add("latent keys and values", StateKind::cache, n,
                 {c.latent_size + c.shared_key_size});
  }
  return layout;
}

Config with_window(Config config, std::optional<int64_t> tokens) {
  if (!tokens || (config.window && config.window <= *tokens)) return config;
  config.kept = kept_tokens;
  config.window = *tokens;
  return config;
}

}  // namespace deltasane::gated_delta
