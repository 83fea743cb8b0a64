#include "corpus/math/patterns.h"

#include "base/error.h"

namespace deltasane::corpus {
namespace {

constexpr Range none{};

constexpr Pattern chains[] = {
    {2, "a+b x+c", {{{1, 30}, {1, 30}, {1, 30}, none}}, "{a} + {b} + {c}", {}},
    {2, "a+b x-c", {{{1, 50}, {1, 40}, {1, 60}, none}}, "{a} + {b} - {c}", {}},
    {2, "a-b x+c", {{{10, 90}, {1, 60}, {1, 40}, none}}, "{a} - {b} + {c}", {}},
    {2, "a-b x-c", {{{20, 99}, {1, 50}, {1, 50}, none}}, "{a} - {b} - {c}", {}},
    {3, "a*b x+c", {{{2, 12}, {2, 30}, {1, 99}, none}}, "{a} * {b} + {c}", {}},
    {3, "a*b x-c", {{{2, 12}, {2, 30}, {1, 99}, none}}, "{a} * {b} - {c}", {}},
    {3, "b*c a+x", {{{1, 99}, {2, 12}, {2, 20}, none}}, "{a} + {b} * {c}", {}},
    {3, "b*c a-x", {{{50, 300}, {2, 12}, {2, 20}, none}}, "{a} - {b} * {c}", {}},
    {3, "a+b x*c", {{{1, 40}, {1, 40}, {2, 12}, none}}, "({a} + {b}) * {c}", {}},
    {3, "a-b x*c", {{{10, 90}, {1, 60}, {2, 12}, none}}, "({a} - {b}) * {c}", {}},
    {4, "a*b c*d x+y", {{{3, 40}, {3, 40}, {3, 40}, {3, 40}}}, "{a} * {b} + {c} * {d}", {}},
    {4, "a*b c*d x-y", {{{3, 40}, {3, 40}, {3, 25}, {3, 25}}}, "{a} * {b} - {c} * {d}", {}},
    {4, "a+b c-d x*y", {{{2, 90}, {2, 90}, {10, 60}, {1, 50}}}, "({a} + {b}) * ({c} - {d})", {}},
    {4, "b+c a*x y-d", {{{2, 25}, {2, 60}, {2, 60}, {1, 500}}}, "{a} * ({b} + {c}) - {d}", {}},
    {4, "b-c x*d a+y", {{{1, 500}, {20, 90}, {1, 60}, {2, 25}}}, "{a} + ({b} - {c}) * {d}", {}},
    {4, "a*b x-c y/d", {{{3, 30}, {3, 30}, {1, 99}, {2, 9}}}, "({a} * {b} - {c}) / {d}", {}},
};

constexpr Pattern stories[] = {
    {2,
     "a+b",
     {{{2, 80}, {2, 60}, none, none}},
     "{n} has {a} {o} and gets {b} more. How many {o} does {n} have now?",
     "{n}有{a}{u}{o}，又得到{b}{u}。{n}现在一共有多少{u}{o}？",
     {"In all"},
     {"一共"}},
    {2,
     "a-b",
     {{{5, 99}, {2, 80}, none, none}},
     "{n} has {a} {o} and gives {b} of them to {m}. How many {o} does {n} have left?",
     "{n}有{a}{u}{o}，送给{m}{b}{u}。{n}还剩多少{u}{o}？",
     {"Left"},
     {"还剩"}},
    {2,
     "a*b",
     {{{2, 12}, {2, 12}, none, none}},
     "There are {a} boxes with {b} {o} in each. How many {o} are there in all?",
     "有{a}个盒子，每个盒子里有{b}{u}{o}。一共有多少{u}{o}？",
     {"In all"},
     {"一共"}},
    {2,
     "a/b",
     {{{6, 99}, {2, 9}, none, none}},
     "{a} {o} are shared equally by {b} children. How many {o} does each child get?",
     "把{a}{u}{o}平均分给{b}个孩子。每个孩子分到多少{u}{o}？",
     {"Each child gets"},
     {"每个孩子分到"}},
    {3,
     "a+b x-c",
     {{{5, 99}, {5, 99}, {2, 150}, none}},
     "{n} has {a} {o}, buys {b} more and gives {c} to {m}. How many {o} does {n} have left?",
     "{n}有{a}{u}{o}，又买了{b}{u}，然后送给{m}{c}{u}。{n}还剩多少{u}{o}？",
     {"After buying", "After giving"},
     {"买了以后", "送了以后"}},
    {3,
     "a*b x+c",
     {{{2, 12}, {2, 30}, {2, 99}, none}},
     "{n} buys {a} boxes with {b} {o} in each and already has {c}. How many {o} does {n} have now?",
     "{n}买了{a}盒{o}，每盒{b}{u}，原来还有{c}{u}。{n}现在一共有多少{u}{o}？",
     {"In the boxes", "In all"},
     {"盒子里", "一共"}},
    {3,
     "a-b x-c",
     {{{50, 400}, {5, 200}, {5, 200}, none}},
     "A shop has {a} {o}. It sells {b} in the morning and {c} in the afternoon. How many {o} are "
     "left?",
     "商店有{a}{u}{o}，上午卖出{b}{u}，下午卖出{c}{u}。还剩多少{u}{o}？",
     {"After the morning", "After the afternoon"},
     {"上午以后", "下午以后"}},
    {3,
     "a*b c-x",
     {{{2, 12}, {2, 30}, {50, 400}, none}},
     "{n} buys {a} books at {b} dollars each and pays with {c} dollars. How many dollars does {n} "
     "get back?",
     "{n}买了{a}本书，每本{b}元，付了{c}元。应找回多少元？",
     {"The books cost", "Change"},
     {"书的总价", "找回"}},
    {3,
     "a*b x+c",
     {{{20, 99}, {2, 9}, {5, 200}, none}},
     "A train goes {a} kilometres an hour for {b} hours and then {c} kilometres more. How many "
     "kilometres does it go in all?",
     "一列火车每小时行{a}千米，行了{b}小时，然后又行了{c}千米。一共行了多少千米？",
     {"In the first part", "In all"},
     {"前一段", "一共"}},
    {4,
     "a*b x-c y/d",
     {{{15, 120}, {2, 14}, {5, 300}, {2, 9}}},
     "{n} earns {a} dollars a day for {b} days, spends {c} dollars and puts the rest into {d} "
     "jars, "
     "the same in each. How many dollars are in each jar?",
     "{n}每天挣{a}元，挣了{b}天，花了{c}元，剩下的平均放进{d}个罐子。每个罐子里有多少元？",
     {"Earned", "Kept", "In each jar"},
     {"挣到", "剩下", "每个罐子"}},
    {4,
     "a*b c*d x+y",
     {{{3, 30}, {5, 40}, {3, 30}, {5, 40}}},
     "A school orders {a} boxes with {b} {o} each and {c} boxes with {d} {o} each. How many {o} is "
     "that in all?",
     "学校订了{a}盒{o}，每盒{b}{u}，又订了{c}盒，每盒{d}{u}。一共订了多少{u}{o}？",
     {"First boxes", "Other boxes", "In all"},
     {"先订的", "又订的", "一共"}},
    {4,
     "b*c a+x y-d",
     {{{20, 400}, {5, 40}, {3, 30}, {10, 600}}},
     "A tank holds {a} litres of water. A pipe adds {b} litres a minute for {c} minutes, and then "
     "{d} litres are used. How many litres are left?",
     "水箱里有{a}升水，水管每分钟加{b}升，加了{c}分钟，然后用掉{d}升。还剩多少升？",
     {"Added", "Before use", "Left"},
     {"加了", "用水前", "还剩"}},
    {4,
     "a*b c*b x-y",
     {{{15, 60}, {3, 30}, {5, 40}, none}},
     "{n} reads {a} pages a day for {b} days, and {m} reads {c} pages a day for as long. How many "
     "more pages than {m} does {n} read?",
     "{n}每天读{a}页，读了{b}天；{m}每天读{c}页，读了同样多天。{n}比{m}多读多少页？",
     {"One reads", "The other reads", "More"},
     {"一人读了", "另一人读了", "多读"}},
};

}  // namespace

std::span<const Pattern> chain_patterns() { return chains; }
std::span<const Pattern> story_patterns() { return stories; }

Steps run_program(std::string_view program, const Operands& values) {
  Steps steps;
  const auto value_of = [&](char name) {
    if (name >= 'a' && name <= 'd') return values[size_t(name - 'a')];
    require(name >= 'x' && name - 'x' < steps.count, "a program uses results it has");
    return steps.step[size_t(name - 'x')].result;
  };
  for (size_t at = 0; at + 3 <= program.size(); at += 4) {
    Step step{value_of(program[at]), value_of(program[at + 2]), 0, program[at + 1]};
    switch (step.sign) {
      case '+':
        step.result = step.left + step.right;
        break;
      case '-':
        step.result = step.left - step.right;
        break;
      case '*':
        step.result = step.left * step.right;
        break;
      default:
        require(step.sign == '/', "a program has the signs + - * /");
        if (step.right == 0 || step.left % step.right != 0) return {};
        step.result = step.left / step.right;
    }
    if (step.result < 0) return {};
    steps.step[size_t(steps.count++)] = step;
  }
  return steps;
}

}  // namespace deltasane::corpus
