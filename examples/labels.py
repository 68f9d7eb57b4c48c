"""Re-rank a set with labels, and see what it is worth: handwritten digits by their pixels.

pip install 'kinrank[demo]'; python examples/labels.py
"""

import kinrank

data = kinrank.datasets.load("digits")  # 100 queries, 1,697 others, their labels
queries, gallery = data.query.features, data.gallery.features

methods = {
    "plain search": kinrank.evaluate.Plain(),
    "k-reciprocal": kinrank.KReciprocal(),
    "CAS, k1=20": kinrank.CAS(),
    "CAS, k1=60": kinrank.CAS(k1=60, k2=6),  # a digit has some 170 of its kind
}
results = {}
for name, method in methods.items():
    results[name] = data.evaluate(method.rerank(queries, gallery))
    mean, first = 100 * results[name].mAP, 100 * results[name].cmc[1]
    print(f"{name:<14} mAP {mean:5.1f}   rank 1 {first:5.1f}")

# Is the difference one? Queries are drawn again and again.
interval = kinrank.evaluate.paired_difference(results["CAS, k1=60"].ap, results["plain search"].ap)
print(f"CAS gains {100 * interval.low:.1f} to {100 * interval.high:.1f} points of mAP")
