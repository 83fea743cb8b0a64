"""Lets a model without SANE and the same model with it read one long text, and prints how their states grow.

    python examples/python/watch_a_state.py models/arithmetic-baseline.safetensors models/arithmetic-sane-3.safetensors
"""

import argparse
import random

import deltasane


def sums(count, seed=1):
    """Questions and answers like those that the models were trained on."""
    numbers = random.Random(seed)
    pairs = [(numbers.randrange(100), numbers.randrange(100)) for _ in range(count)]
    return "".join(f"User: {a}+{b}=?\n\nAssistant: {a + b}\n\n" for a, b in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="+")
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--every", type=int, default=2048, help="tokens between two lines")
    options = parser.parse_args()
    text = sums(options.questions)
    for path in options.model:
        model = deltasane.Model(path)
        print(f"{model.name}: {model.description['sane']}")
        print(f"{'position':>10} {'norm of the largest head':>26} {'its largest entry':>18}")
        heads = model.watch(text, every=options.every)
        for position in sorted(set(heads["position"].tolist())):
            now = heads[heads["position"] == position]
            largest = now[now["norm"].argmax()]
            print(f"{position:>10} {largest['norm']:>26.1f} {largest['largest']:>18.1f}")


if __name__ == "__main__":
    main()
