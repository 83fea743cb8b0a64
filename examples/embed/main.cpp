// embed MODEL PROMPT: completes a prompt, and says how many tokens the state has read.
#include <deltasane/deltasane.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: embed MODEL PROMPT\n";
    return 2;
  }
  try {
    const deltasane::Model model = deltasane::Model::open(argv[1]);
    deltasane::State state = model.fresh_state();
    deltasane::SamplingSettings settings;
    settings.temperature = 0;
    settings.max_tokens = 40;
    settings.stop = {"\n"};
    model.generate(argv[2], state, settings, [](std::string_view text) {
      std::cout << text << std::flush;
      return true;
    });
    std::cout << "\nposition " << state.position() << '\n';
  } catch (const deltasane::Error& error) {
    std::cerr << "embed: " << error.what() << '\n';
    return 1;
  }
}
