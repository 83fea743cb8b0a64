#include "format/pth/pickle.h"

#include <gtest/gtest.h>

#include "format/pth/fixture_pth.h"
#include "support/errors.h"

namespace deltasane {
namespace {

using test::Pickle;

std::vector<PickledTensor> pickle_from(const std::string& bytes) {
  return read_pickle(std::as_bytes(std::span(bytes)), "file", {.values = 10'000});
}

void rejected(Pickle pickle, std::string_view why) {
  EXPECT_FAULT(pickle_from(pickle.end()), Fault::file, why);
}

TEST(Pickle, ReadsAnEmptyDictionary) { EXPECT_TRUE(pickle_from(Pickle().raw("}").end()).empty()); }

TEST(Pickle, ExecutesNothing) {
  rejected(Pickle().global("os", "system").text("echo").raw("\x85R"),
           "'os.system'; nothing was executed");
  rejected(Pickle().global("builtins", "eval"), "'builtins.eval'");
  rejected(Pickle().global("collections", "defaultdict"), "'collections.defaultdict'");
  rejected(Pickle().global("torch", "load"), "'torch.load'");
  rejected(Pickle().global("torch._utils", "_rebuild_sparse_tensor"), "'torch._utils._rebuild_sp");
  rejected(Pickle().global("", ""), "'.'");
  rejected(Pickle().global(std::string(500, 'a'), "b"), "at most 128 bytes");
  for (const char* const opcode : {"i", "o", "\x93", "\x92", "\x82", "P", "I1\n", "S'a'\n", "V",
                                   "2", "0", "1", "\x8c", "\x94"})
    rejected(Pickle().raw("}").raw(opcode), "file: at byte");
}

TEST(Pickle, CallsOnlyKnownFunctions) {
  rejected(Pickle().text("f").raw(")R"), "found a text and a tuple");
  rejected(Pickle().raw("))R"), "found a tuple and a tuple");
  rejected(Pickle().raw("})R"), "found a dictionary");
  rejected(Pickle().global("torch", "FloatStorage").raw(")R"), "one of FloatStorage");
  rejected(Pickle().global("torch", "float32").raw(")R"), "one of float32");
  rejected(Pickle().global("collections", "OrderedDict").raw("}R"), "a dictionary");
  rejected(Pickle().global("collections", "OrderedDict").integer(1).raw("\x85R"),
           "0 to 0 arguments");
  rejected(Pickle().global("torch._utils", "_rebuild_tensor_v2").raw(")R"), "6 to 7 arguments");
  rejected(Pickle().global("torch._utils", "_rebuild_parameter").raw("NNN\x87R"),
           "tensor as param");
  rejected(Pickle().global("torch", "Size").integer(1).raw("\x85R"), "tuple as size");
  rejected(Pickle().global("torch", "FloatStorage").raw(")\x81"), "one of FloatStorage");
  rejected(Pickle().raw("N}b"), "state for a dictionary only");
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
  rejected(Pickle().raw(")Q"), "id of a storage");
  rejected(Pickle().text("storage").raw("Q"), "id of a storage");
}

TEST(Pickle, KeepsItsStackAndMemoInBounds) {
  rejected(Pickle().raw("t"), "expected a mark");
  rejected(Pickle().raw("\x87"), "found none");
  rejected(Pickle().raw("(\x85"), "found none");
  rejected(Pickle().raw("R"), "found none");
  rejected(Pickle().raw("q").raw(std::string_view("\0", 1)), "found none");
  rejected(Pickle().raw("h\x05"), "found none at 5");
  rejected(Pickle().raw("}r\xff\xff\xff\xff"), "memo indices below");
  rejected(Pickle().raw("j\xff\xff\xff\x7f"), "found none at");
  rejected(Pickle(), "expected one value at the end");
  rejected(Pickle().raw("}}"), "expected one value at the end");
  rejected(Pickle().raw("}("), "expected one value at the end");
  rejected(Pickle().raw("}Ns"), "found none");
  rejected(Pickle().raw("]NNs"), "dictionary to add to, found a list");
  rejected(Pickle().raw("}Na"), "list to add to, found a dictionary");
  rejected(Pickle().raw("}(Nu"), "a key alone");
  rejected(Pickle().raw("}NNs"), "names as keys");
  rejected(Pickle().raw("}").text("w").raw("Ns"), "expected a tensor, found a None");
  rejected(Pickle().raw("}").text("w").raw("}s"), "save the inner dictionary by itself");
  rejected(Pickle().raw("N"), "dictionary of tensors, found a None");
  EXPECT_FAULT(pickle_from(Pickle().raw("}").end() + "x"), Fault::file, "1 bytes more");
  EXPECT_FAULT(pickle_from("\x80\x04}."), Fault::file, "protocol 2");
}

TEST(Pickle, BoundsDepthAndNumber) {
  rejected(Pickle().raw(std::string(1'000'000, '(')), "fewer marks");
  rejected(Pickle().raw(std::string(1'000'000, '}')), "at most 10000 values");
  // A tuple in a tuple in a tuple: needs no recursion.
  std::string nested(9'000, '\x85');
  rejected(Pickle().raw(")").raw(nested), "found a tuple");
  // A list that holds itself.
  rejected(Pickle().raw("]q").raw(std::string_view("\1h\1a", 4)), "found a list");
  std::string memo_gets = "}q";
  memo_gets += '\1';
  for (int i = 0; i < 20'000; ++i) memo_gets += "h\1";
  rejected(Pickle().raw(memo_gets), "on the stack");
  rejected(Pickle().raw("\x8a\x09").raw("123456789"), "at most 8 bytes");
  rejected(Pickle().raw("X\xff\xff\xff\xff"), "expected 4294967295 bytes");
}

}  // namespace
}  // namespace deltasane
