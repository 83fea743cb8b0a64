// Files that others wrote. The numbers here were computed from them by an independent reader.
#include <gtest/gtest.h>

#include <cmath>

#include "format/pth/pth.h"
#include "model/rwkv7/checkpoint/checkpoint.h"
#include "format/rwkvcpp.h"
#include "support/errors.h"

namespace deltasane {
namespace {

fs::path shared(const char* name) { return fs::path(DELTASANE_SHARED) / name; }

// The correctly rounded sum, as long as it is not a close call: Neumaier's compensation.
double sum_of(const Tensor<float>& tensor) {
  double sum = 0, lost = 0;
  for (const double x : tensor.span()) {
    const double next = sum + x;
    lost += std::fabs(sum) >= std::fabs(x) ? (sum - next) + x : (x - next) + sum;
    sum = next;
  }
  return sum + lost;
}

struct Expected {
  const char* name;
  Shape shape;
  double sum;
};
const Expected reverse_rwkv7[] = {
    {"e.weight", {12, 32}, -29.354858239472378},
    {"ln1a.weight", {32}, 7.660514711635187},
    {"ln1a.bias", {32}, 2.6907399867777713},
    {"ln1b.weight", {32}, 17.809678986668587},
    {"ln1b.bias", {32}, 3.0161404283717275},
    {"ln1c.weight", {32}, 32.0},
    {"ln1c.bias", {32}, 0.0},
    {"rwkv1.x_r", {1, 1, 32}, -4.854995355010033},
    {"rwkv1.x_w", {1, 1, 32}, 27.89729074202478},
    {"rwkv1.x_k", {1, 1, 32}, 23.720190908759832},
    {"rwkv1.x_v", {1, 1, 32}, 16.325488716363907},
    {"rwkv1.x_a", {1, 1, 32}, 21.538701439276338},
    {"rwkv1.x_g", {1, 1, 32}, 4.910990748554468},
    {"rwkv1.w1", {32, 8}, -2.3227450917474926},
    {"rwkv1.w2", {8, 32}, -100.96365128550678},
    {"rwkv1.w0", {1, 1, 32}, -204.26911951601505},
    {"rwkv1.a1", {32, 8}, -1.812607278698124},
    {"rwkv1.a2", {8, 32}, 41.05952011118643},
    {"rwkv1.a0", {1, 1, 32}, 1.7434520833194256},
    {"rwkv1.v1", {32, 8}, 0.0},
    {"rwkv1.v2", {8, 32}, -0.32511304185391054},
    {"rwkv1.v0", {1, 1, 32}, 23.360000610351562},
    {"rwkv1.g1", {32, 8}, 12.458598441444337},
    {"rwkv1.g2", {8, 32}, 34.7360776742571},
    {"rwkv1.k_k", {1, 1, 32}, 29.383668416179717},
    {"rwkv1.k_a", {1, 1, 32}, 39.88662859797478},
    {"rwkv1.r_k", {2, 16}, -5.314807770017069},
    {"rwkv1.receptance.weight", {32, 32}, -9.997579283255618},
    {"rwkv1.key.weight", {32, 32}, -21.572741740383208},
    {"rwkv1.value.weight", {32, 32}, -4.693234895334172},
    {"rwkv1.output.weight", {32, 32}, -3.0650362994347233},
    {"rwkv1.ln_x.weight", {32}, 32.75286763906479},
    {"rwkv1.ln_x.bias", {32}, 5.6759895496070385},
    {"rosa1.x_q", {1, 1, 32}, 0.0},
    {"rosa1.x_k", {1, 1, 32}, 0.0},
    {"rosa1.x_v", {1, 1, 32}, 0.0},
    {"rosa1.q.weight", {32, 32}, 0.08233956382082397},
    {"rosa1.q.bias", {32}, -0.5247082281275652},
    {"rosa1.k.weight", {32, 32}, -3.901022597361589},
    {"rosa1.k.bias", {32}, 0.3929810943081975},
    {"rosa1.v.weight", {32, 32}, 2.781501943936746},
    {"rosa1.v.bias", {32}, 0.7674807670991868},
    {"rosa1.rosa_qkv.emb", {1, 1, 32}, 0.0},
    {"rosa1.o.weight", {32, 32}, 0.08251853068304627},
    {"rosa1.o.bias", {32}, -3.6271269861608744},
    {"ffn1.x_k", {1, 1, 32}, -3.137784506936441},
    {"ffn1.key.weight", {128, 32}, -34.01658285227313},
    {"ffn1.value.weight", {32, 128}, 20.326058631253545},
    {"ln2a.weight", {32}, 15.812584564089775},
    {"ln2a.bias", {32}, 1.568702676333487},
    {"ln2b.weight", {32}, 38.47231540083885},
    {"ln2b.bias", {32}, 0.3267107592400862},
    {"ln2c.weight", {32}, 32.0},
    {"ln2c.bias", {32}, 0.0},
    {"rwkv2.x_r", {1, 1, 32}, 5.0001893592998385},
    {"rwkv2.x_w", {1, 1, 32}, 17.956565741449594},
    {"rwkv2.x_k", {1, 1, 32}, 8.692911610007286},
    {"rwkv2.x_v", {1, 1, 32}, 2.6119627989828587},
    {"rwkv2.x_a", {1, 1, 32}, 8.801450852304697},
    {"rwkv2.x_g", {1, 1, 32}, 5.988033616740722},
    {"rwkv2.w1", {32, 8}, -5.082662159984466},
    {"rwkv2.w2", {8, 32}, 80.34612037194893},
    {"rwkv2.w0", {1, 1, 32}, -141.5954377260059},
    {"rwkv2.a1", {32, 8}, 11.648679483885644},
    {"rwkv2.a2", {8, 32}, -5.496848855618737},
    {"rwkv2.a0", {1, 1, 32}, -19.67130357027054},
    {"rwkv2.v1", {32, 8}, 26.89120559747971},
    {"rwkv2.v2", {8, 32}, 42.0458137569949},
    {"rwkv2.v0", {1, 1, 32}, 28.70500682364218},
    {"rwkv2.g1", {32, 8}, 10.592661370523274},
    {"rwkv2.g2", {8, 32}, 1.2485061766492436},
    {"rwkv2.k_k", {1, 1, 32}, 18.43428596947342},
    {"rwkv2.k_a", {1, 1, 32}, 44.596276268363},
    {"rwkv2.r_k", {2, 16}, 4.582111291587353},
    {"rwkv2.receptance.weight", {32, 32}, 7.559123941900907},
    {"rwkv2.key.weight", {32, 32}, 0.7607206105749356},
    {"rwkv2.value.weight", {32, 32}, -21.881773403234547},
    {"rwkv2.output.weight", {32, 32}, 13.856259067135397},
    {"rwkv2.ln_x.weight", {32}, 60.90874998085201},
    {"rwkv2.ln_x.bias", {32}, 0.448776395060122},
    {"rosa2.x_q", {1, 1, 32}, 0.0},
    {"rosa2.x_k", {1, 1, 32}, 0.0},
    {"rosa2.x_v", {1, 1, 32}, 0.0},
    {"rosa2.q.weight", {32, 32}, 0.028814949708362292},
    {"rosa2.q.bias", {32}, 0.0068697575479745865},
    {"rosa2.k.weight", {32, 32}, -7.587297845140711},
    {"rosa2.k.bias", {32}, 0.20549751282669604},
    {"rosa2.v.weight", {32, 32}, -0.8594026444516203},
    {"rosa2.v.bias", {32}, 0.1010952303186059},
    {"rosa2.rosa_qkv.emb", {1, 1, 32}, 0.0},
    {"rosa2.o.weight", {32, 32}, -0.050949764632605365},
    {"rosa2.o.bias", {32}, 0.8941458999179304},
    {"ffn2.x_k", {1, 1, 32}, -2.482810467481613},
    {"ffn2.key.weight", {128, 32}, 0.6386026585387299},
    {"ffn2.value.weight", {32, 128}, -53.85180121301855},
    {"lno.weight", {32}, 93.27601456642151},
    {"lno.bias", {32}, -5.021430879831314},
    {"o.weight", {12, 32}, 15.653454652314394},
    {"o.bias", {12}, -26.067148864269257},
};

TEST(SharedFiles, ReverseRwkv7HasItsNamesShapesAndSums) {
  const fs::path path = shared("data/reverse-rwkv7.pth");
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not here";
  const TensorFile file = open_pth(path);
  ASSERT_EQ(file.tensors().size(), std::size(reverse_rwkv7));
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const StoredTensor& tensor = file.tensors()[i];
    const Expected& expected = reverse_rwkv7[i];
    EXPECT_EQ(tensor.name, expected.name);
    EXPECT_EQ(tensor.shape, expected.shape) << tensor.name;
    EXPECT_EQ(tensor.type, StoredType::f32);
    EXPECT_EQ(sum_of(file.read(tensor)), expected.sum) << tensor.name;
  }
  EXPECT_FAULT(Rwkv7Checkpoint(path), Fault::file, "expected a tensor of RWKV-7");
}

struct TinyFile {
  const char* name;
  StoredType type;
  double total, magnitude, w1, key;
};

TEST(SharedFiles, TinyRwkv7IsReadFromEveryType) {
  for (const TinyFile& tiny :
       {TinyFile{"FP32", StoredType::f32, 1590.8607754320255, 31888.963186319976,
                 -193.7447476387024, 0.7965599000453949},
        TinyFile{"FP16", StoredType::f16, 1590.8607759410515, 31888.96318563167,
                 -193.74469661712646, 0.7965599298477173},
        TinyFile{"Q5_0", StoredType::q5_0, 1589.7969010686502, 31862.035091241123,
                 -193.7447476387024, 0.8368301391601562},
        TinyFile{"Q5_1", StoredType::q5_1, 1589.884097895585, 31903.78780134511, -193.7447476387024,
                 0.7730093002319336}}) {
    const fs::path path =
        shared(cat("data/tiny-rwkv7/tiny-rwkv-7v0-834K-", tiny.name, ".bin").c_str());
    if (!fs::exists(path)) GTEST_SKIP() << path << " is not here";
    const Rwkv7Checkpoint checkpoint(path);
    const Rwkv7Shape shape = checkpoint.validate();
    EXPECT_EQ(shape, (Rwkv7Shape{.layers = 12,
                                 .channels = 64,
                                 .heads = 1,
                                 .head_size = 64,
                                 .feed_forward = 256,
                                 .vocabulary = 256,
                                 .rank_w = 32,
                                 .rank_a = 32,
                                 .rank_v = 32,
                                 .rank_g = 32}));
    double total = 0, magnitude = 0;
    for (const StoredTensor& tensor : checkpoint.file().tensors()) {
      Tensor<float> values = checkpoint.file().read(tensor);
      total += sum_of(values);
      for (float& x : values.span()) x = std::fabs(x);
      magnitude += sum_of(values);
    }
    EXPECT_NEAR(total, tiny.total, 1e-9);
    EXPECT_NEAR(magnitude, tiny.magnitude, 1e-8);
    EXPECT_EQ(sum_of(checkpoint.read("blocks.1.att.x_g")), 10.567955017089844);
    EXPECT_EQ(sum_of(checkpoint.read("blocks.5.att.key.weight")), tiny.key);
    EXPECT_EQ(checkpoint.type("blocks.5.att.key.weight"), tiny.type);
    // The file holds w1 transposed: weights by place tell the orientation.
    const Tensor<float> w1 = checkpoint.read("blocks.3.att.w1");
    EXPECT_EQ(w1.shape(), (Shape{64, 32}));
    double weighted = 0;
    for (int64_t i = 0; i < w1.elements(); ++i) weighted += double(i + 1) * w1[i];
    EXPECT_NEAR(weighted, tiny.w1, 1e-9);
    EXPECT_FALSE(find_non_finite(checkpoint.file()));
  }
}

}  // namespace
}  // namespace deltasane
