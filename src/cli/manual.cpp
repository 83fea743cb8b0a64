#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/cat.h"
#include "base/version.h"
#include "cli/command.h"

namespace deltasane::cli {
namespace {

// Text as roff prints it: no character is a request, and a hyphen can be copied as one.
std::string as_roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string before(const std::string& text, char end) { return text.substr(0, text.find(end)); }

std::string option_entry(const CLI::Option& option) {
  std::string entry = ".TP\n";
  if (option.get_positional()) {
    entry += cat("\\fI", as_roff(option.get_name(true, false)), "\\fR");
  } else {
    entry += cat("\\fB", as_roff(option.get_name(false, true)), "\\fR");
    if (option.get_items_expected_max() > 0)
      entry += cat(" \\fI", as_roff(before(option.get_type_name(), ':')), "\\fR");
  }
  entry += cat("\n", as_roff(option.get_description()));
  if (!option.get_default_str().empty()) entry += cat(" [", as_roff(option.get_default_str()), "]");
  if (option.get_required() && !option.get_positional()) entry += " (required)";
  return entry + "\n";
}

bool is_shown(const CLI::App* app) { return !app->get_group().empty(); }

// A command, its flags, its examples, and the commands below it.
void append_command(CLI::App& app, const std::string& path, std::string& page) {
  page += cat(".SS ", as_roff(path));
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional()) page += cat(" ", as_roff(option->get_name(true, false)));
  page += cat("\n", as_roff(app.get_description()), "\n");
  for (const CLI::Option* option : app.get_options())
    if (option != app.get_help_ptr()) page += option_entry(*option);
  if (const std::string footer = app.get_footer(); !footer.empty())
    page += cat(".PP\n.nf\n", as_roff(footer), "\n.fi\n");
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; }))
    if (is_shown(sub)) append_command(*sub, cat(path, " ", sub->get_name()), page);
}

std::string manual_page(CLI::App& program) {
  const std::string about = program.get_description();
  const std::string first = before(before(about, '\n'), '.');
  std::string page = cat(".TH DELTASANE 1 \"\" \"deltasane ", as_roff(build_version()),
                         "\" \"User Commands\"\n.SH NAME\ndeltasane \\- ",
                         as_roff(first.substr(first.find(' ') + 1)),
                         "\n.SH SYNOPSIS\n.B deltasane\n\\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n"
                         ".br\n.B deltasane\n\\fICOMMAND\\fR \\fB\\-\\-help\\fR\n"
                         ".br\n.B deltasane \\-\\-version\n.SH DESCRIPTION\n",
                         as_roff(about), "\n.SH COMMANDS\n");
  for (CLI::App* sub : program.get_subcommands([](CLI::App*) { return true; }))
    if (is_shown(sub)) append_command(*sub, cat("deltasane ", sub->get_name()), page);
  return page +
         ".SH EXIT STATUS\n.TP\n0\nsuccess\n.TP\n1\na file, a device or a number was not as "
         "expected\n.TP\n2\na command or an option cannot be understood\n";
}

}  // namespace

// Not among the commands of --help: the build writes the installed page with it.
const Command manual{"manual", "print the manual page", [](CLI::App& app) {
                       app.group("");
                       return [&app] {
                         fmt::print("{}", manual_page(*app.get_parent()));
                         return 0;
                       };
                     }};

}  // namespace deltasane::cli
