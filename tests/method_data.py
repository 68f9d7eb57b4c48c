"""Sizes that the tests of methods share."""

# Sizes that fit the small sets of this file, where the defaults are for thousands of rows.
SMALL = {
    "alphaqe": {"kqe": 8, "kdba": 5},
    "cas": {"k1": 8, "k2": 4},
    "dqe": {"kqe": 5, "neg": 5},
    "egt": {"k1": 6, "p": 30},
    "eir": {"k1": 8, "truncation": 40},
    "gnn": {"k1": 8, "k2": 3},
    "gss": {"epochs": 4},
    "sg": {"m": 30, "k1": 4},
}
