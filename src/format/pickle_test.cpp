#include "format/pickle.h"

#include <gtest/gtest.h>

#include "format/fixture_pth.h"
#include "support/errors.h"

namespace deltasane {
namespace {

using test::Pickle;

std::vector<PickledTensor> pickle_from(const std::string& bytes) {
  return read_pickle(std::as_bytes(std::span(bytes)), "file", {.values = 10'000});
}

void refused(Pickle pickle, std::string_view why) {
  EXPECT_FAULT(pickle_from(pickle.end()), Fault::file, why);
}

TEST(Pickle, ReadsAnEmptyDictionary) { EXPECT_TRUE(pickle_from(Pickle().raw("}").end()).empty()); }

TEST(Pickle, RunsNothing) {
  refused(Pickle().global("os", "system").text("echo").raw("\x85R"),
          "'os.system'; nothing was run");
  refused(Pickle().global("builtins", "eval"), "'builtins.eval'");
  refused(Pickle().global("collections", "defaultdict"), "'collections.defaultdict'");
  refused(Pickle().global("torch", "load"), "'torch.load'");
  refused(Pickle().global("torch._utils", "_rebuild_sparse_tensor"), "'torch._utils._rebuild_sp");
  refused(Pickle().global("", ""), "'.'");
  refused(Pickle().global(std::string(500, 'a'), "b"), "at most 128 bytes");
  for (const char* const opcode : {"i", "o", "\x93", "\x92", "\x82", "P", "I1\n", "S'a'\n", "V",
                                   "2", "0", "1", "\x8c", "\x94"})
    refused(Pickle().raw("}").raw(opcode), "file: at byte");
}

TEST(Pickle, CallsOnlyWhatItKnows) {
  refused(Pickle().text("f").raw(")R"), "found a text and a tuple");
  refused(Pickle().raw("))R"), "found a tuple and a tuple");
  refused(Pickle().raw("})R"), "found a dictionary");
  refused(Pickle().global("torch", "FloatStorage").raw(")R"), "one of FloatStorage");
  refused(Pickle().global("torch", "float32").raw(")R"), "one of float32");
  refused(Pickle().global("collections", "OrderedDict").raw("}R"), "a dictionary");
  refused(Pickle().global("collections", "OrderedDict").integer(1).raw("\x85R"),
          "0 to 0 arguments");
  refused(Pickle().global("torch._utils", "_rebuild_tensor_v2").raw(")R"), "6 to 7 arguments");
  refused(Pickle().global("torch._utils", "_rebuild_parameter").raw("NNN\x87R"), "tensor as param");
  refused(Pickle().global("torch", "Size").integer(1).raw("\x85R"), "tuple as size");
  refused(Pickle().global("torch", "FloatStorage").raw(")\x81"), "one of FloatStorage");
  refused(Pickle().raw("N}b"), "state for a dictionary only");
}

TEST(Pickle, ChecksEveryArgument) {
  const auto call = [](int wrong) {
    Pickle pickle;
    pickle.raw("}").text("w").global("torch._utils", "_rebuild_tensor_v2").raw("(");
    wrong == 0 ? pickle.raw("N") : pickle.storage("FloatStorage", "0", 4);
    wrong == 1 ? pickle.raw("N") : pickle.integer(0);
    wrong == 2 ? pickle.integer(4) : pickle.tuple({4});
    wrong == 3 ? pickle.raw("(Nt") : pickle.tuple({1});
    wrong == 4 ? pickle.integer(0) : pickle.raw("\x89");
    wrong == 5 ? pickle.raw("N") : pickle.raw("}");
    return pickle.raw("tRs").end();
  };
  EXPECT_EQ(pickle_from(call(-1)).size(), 1u);
  for (int wrong = 0; wrong < 6; ++wrong)
    EXPECT_FAULT(pickle_from(call(wrong)), Fault::file, "tensor 'w': expected a");
  refused(Pickle().raw(")Q"), "id of a storage");
  refused(Pickle().text("storage").raw("Q"), "id of a storage");
}

TEST(Pickle, KeepsItsStackAndMemoInBounds) {
  refused(Pickle().raw("t"), "expected a mark");
  refused(Pickle().raw("\x87"), "found none");
  refused(Pickle().raw("(\x85"), "found none");
  refused(Pickle().raw("R"), "found none");
  refused(Pickle().raw("q").raw(std::string_view("\0", 1)), "found none");
  refused(Pickle().raw("h\x05"), "found none at 5");
  refused(Pickle().raw("}r\xff\xff\xff\xff"), "memo indices below");
  refused(Pickle().raw("j\xff\xff\xff\x7f"), "found none at");
  refused(Pickle(), "expected one value at the end");
  refused(Pickle().raw("}}"), "expected one value at the end");
  refused(Pickle().raw("}("), "expected one value at the end");
  refused(Pickle().raw("}Ns"), "found none");
  refused(Pickle().raw("]NNs"), "dictionary to add to, found a list");
  refused(Pickle().raw("}Na"), "list to add to, found a dictionary");
  refused(Pickle().raw("}(Nu"), "a key alone");
  refused(Pickle().raw("}NNs"), "names as keys");
  refused(Pickle().raw("}").text("w").raw("Ns"), "expected a tensor, found a None");
  refused(Pickle().raw("}").text("w").raw("}s"), "save the inner dictionary by itself");
  refused(Pickle().raw("N"), "dictionary of tensors, found a None");
  EXPECT_FAULT(pickle_from(Pickle().raw("}").end() + "x"), Fault::file, "1 bytes more");
  EXPECT_FAULT(pickle_from("\x80\x04}."), Fault::file, "protocol 2");
}

TEST(Pickle, BoundsDepthAndNumber) {
  refused(Pickle().raw(std::string(1'000'000, '(')), "fewer marks");
  refused(Pickle().raw(std::string(1'000'000, '}')), "at most 10000 values");
  // A tuple in a tuple in a tuple: costs no stack.
  std::string nested(9'000, '\x85');
  refused(Pickle().raw(")").raw(nested), "found a tuple");
  // A list that holds itself.
  refused(Pickle().raw("]q").raw(std::string_view("\1h\1a", 4)), "found a list");
  std::string recalls = "}q";
  recalls += '\1';
  for (int i = 0; i < 20'000; ++i) recalls += "h\1";
  refused(Pickle().raw(recalls), "on the stack");
  refused(Pickle().raw("\x8a\x09").raw("123456789"), "at most 8 bytes");
  refused(Pickle().raw("X\xff\xff\xff\xff"), "expected 4294967295 bytes");
}

}  // namespace
}  // namespace deltasane
