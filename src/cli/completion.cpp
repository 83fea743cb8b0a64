#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/command.h"

namespace deltasane::cli {
namespace {

// A command, or a command's command, and the words that may follow it.
struct Completed {
  std::string path;                                           // "bench kernel"
  std::vector<std::pair<std::string, std::string>> flags;     // with what they are for
  std::vector<std::pair<std::string, std::string>> commands;  // below it
};

void collect(CLI::App& app, const std::string& path, std::vector<Completed>& all) {
  Completed here{path, {}, {}};
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      here.flags.push_back({"--" + name, option->get_description()});
  const auto subcommands =
      app.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
  for (const CLI::App* sub : subcommands)
    here.commands.push_back({sub->get_name(), sub->get_description()});
  all.push_back(here);
  for (CLI::App* sub : subcommands)
    collect(*sub, path.empty() ? sub->get_name() : cat(path, " ", sub->get_name()), all);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// All paths but the empty one, as a pattern of the shell's `case`.
std::string quoted_paths(const std::vector<Completed>& all) {
  std::string paths;
  for (const Completed& c : all)
    if (!c.path.empty()) paths += cat(paths.empty() ? "" : "|", in_quotes(c.path));
  return paths;
}

// Bash knows words only. The longest path of command words that was typed decides.
std::string for_bash(const std::vector<Completed>& all) {
  std::string text =
      "_deltasane() {\n"
      "  local word path='' candidate\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    candidate=\"${path:+$path }$word\"\n"
      "    case \"$candidate\" in\n      ";
  text += quoted_paths(all) +
          ") path=\"$candidate\" ;;\n    esac\n  done\n"
          "  local words=''\n  case \"$path\" in\n";
  for (const Completed& c : all) {
    std::string words;
    for (const auto& [name, what] : c.commands) words += name + " ";
    for (const auto& [name, what] : c.flags) words += name + " ";
    text += cat("    ", in_quotes(c.path), ") words=", in_quotes(words), " ;;\n");
  }
  return text +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "}\ncomplete -o default -F _deltasane deltasane\n";
}

// "word:what it is for" of each, for zsh's _describe.
std::string described(const std::vector<std::pair<std::string, std::string>>& words) {
  std::string list;
  for (const auto& [name, what] : words) {
    std::string colons;
    for (const char c : first_line(what))
      colons += c == ':' ? std::string("\\:") : std::string(1, c);
    list += cat(list.empty() ? "" : " ", in_quotes(cat(name, ":", colons)));
  }
  return list;
}

// Works from a folder of $fpath, where the first line counts, and when it is sourced.
std::string for_zsh(const std::vector<Completed>& all) {
  std::string text =
      "#compdef deltasane\n"
      "_deltasane() {\n"
      "  local word typed='' candidate\n"
      "  local -a commands flags\n"
      "  for word in \"${(@)words[2,CURRENT-1]}\"; do\n"
      "    candidate=\"${typed:+$typed }$word\"\n"
      "    case \"$candidate\" in\n      ";
  text += quoted_paths(all) +
          ") typed=\"$candidate\" ;;\n    esac\n  done\n"
          "  case \"$typed\" in\n";
  for (const Completed& c : all)
    text += cat("    ", in_quotes(c.path), ")\n      commands=(", described(c.commands),
                ")\n      flags=(", described(c.flags), ") ;;\n");
  return text +
         "  esac\n"
         "  if [[ \"$words[CURRENT]\" == -* ]]; then\n"
         "    _describe 'option' flags\n"
         "  elif (( $#commands )); then\n"
         "    _describe 'command' commands\n"
         "  else\n"
         "    _files\n"
         "  fi\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _deltasane ]; then\n  _deltasane \"$@\"\n"
         "else\n  compdef _deltasane deltasane\nfi\n";
}

std::string for_fish(const std::vector<Completed>& all) {
  std::string text;
  for (const Completed& c : all) {
    std::string when = "__fish_use_subcommand";
    if (!c.path.empty()) {
      when.clear();
      for (size_t at = 0; at < c.path.size();) {
        const size_t space = std::min(c.path.find(' ', at), c.path.size());
        when += cat(when.empty() ? "" : "; and ", "__fish_seen_subcommand_from ",
                    c.path.substr(at, space - at));
        at = space + 1;
      }
    }
    for (const auto& [name, what] : c.commands)
      text += cat("complete -c deltasane -n ", in_quotes(when), " -a ", name, " -d ",
                  in_quotes(first_line(what)), "\n");
    for (const auto& [name, what] : c.flags)
      text += cat("complete -c deltasane -n ", in_quotes(when), " -l ", name.substr(2), " -d ",
                  in_quotes(first_line(what)), "\n");
  }
  return text;
}

int show_completion(CLI::App& program, const std::string& shell) {
  std::vector<Completed> all;
  collect(program, "", all);
  if (shell == "bash")
    fmt::print("{}", for_bash(all));
  else if (shell == "zsh")
    fmt::print("{}", for_zsh(all));
  else if (shell == "fish")
    fmt::print("{}", for_fish(all));
  else
    fail(Fault::usage, "SHELL: expected bash, zsh or fish, found '", shell, "'");
  return 0;
}

}  // namespace

const Command completion{
    "completion", "print a script that completes commands and flags in your shell",
    [](CLI::App& app) {
      auto shell = std::make_shared<std::string>();
      app.add_option("SHELL", *shell, "bash, zsh or fish")->required();
      app.footer(
          "Examples:\n  source <(deltasane completion bash)\n"
          "  deltasane completion fish > ~/.config/fish/completions/deltasane.fish");
      return [shell, &app] { return show_completion(*app.get_parent(), *shell); };
    }};

}  // namespace deltasane::cli
