// test_report JUNIT EXPECTED: prints skipped tests and notes; exit code 1 on an unexpected skip.
#include <iostream>

#include "base/error.h"
#include "base/io/file.h"
#include "house/report.h"

using namespace deltasane;

int main(int count, char** words) try {
  if (count != 3) fail(Fault::usage, "usage: test_report JUNIT EXPECTED");
  const house::Report report = house::read_report(read_file(words[1]));
  const std::string expected = read_file(words[2]);
  if (report.tests == 0) fail(Fault::file, words[1], ": expected tests, found none");
  size_t unexpected = 0;
  for (const house::Skip& skip : report.skips) {
    const bool known = house::is_expected(skip, expected);
    unexpected += !known;
    std::cout << (known ? "skipped: " : "UNEXPECTED SKIP: ") << skip.name << ": " << skip.reason
              << "\n";
  }
  for (const std::string& note : report.notes) std::cout << "note: " << note << "\n";
  std::cout << report.tests << " tests, " << report.skips.size() << " skipped, " << unexpected
            << " of them not listed in " << words[2] << std::endl;
  return unexpected > 0;
} catch (const Error& error) {
  std::cerr << "test_report: " << error.what() << "\n";
  return error.fault() == Fault::usage ? 2 : 1;
}
