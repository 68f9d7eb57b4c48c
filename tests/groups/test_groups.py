"""Groups of small collections: right ones, reasons, corrections, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import kinrank
from kinrank import Constraints


def people(n_people=12, photos=10, noise=0.35, singles=15, seed=0):
    """Faces, as it were: vectors and who they show."""
    random = np.random.default_rng(seed)
    sizes = [photos] * n_people + [1] * singles
    centres = random.normal(size=(len(sizes), 24))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    vectors = centres[labels] + noise * random.normal(size=(len(labels), 24))
    return vectors.astype(np.float32), labels


@pytest.fixture(scope="module")
def faces():
    return people()


@pytest.fixture(scope="module")
def found(faces):
    vectors, _ = faces
    return kinrank.group(vectors, [f"p{row}" for row in range(len(vectors))])


def score(labels, groups):
    return kinrank.evaluate.score_grouping(labels, groups.labels)


def test_people_are_found(faces, found):
    scores = score(faces[1], found)
    assert scores.ari > 0.95
    assert scores.singles_found >= 0.8
    assert scores.bcubed_recall > 0.99
    assert found.verdict.sure
    assert found.verdict.agreement > 0.6


def test_rows_that_come_in_twos_are_found():
    vectors, labels = people(n_people=300, photos=2, singles=0)
    groups = kinrank.group(vectors)
    assert score(labels, groups).ari > 0.95
    assert groups.verdict.sure


def test_single_items_beside_large_tight_groups_are_found():
    random = np.random.default_rng(2)
    sizes = [60] * 10 + [1] * 12
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = random.normal(size=(len(sizes), 32))
    centres[10:] = 0.6 * centres[10:] + 0.6 * centres[random.integers(10, size=12)]
    vectors = centres[labels] + 0.2 * random.normal(size=(len(labels), 32))
    scores = score(labels, kinrank.group(vectors))
    assert scores.singles_found == 1
    assert scores.ari > 0.98


def test_copies_of_all_rows_are_no_twos(faces):
    vectors, labels = faces
    copies = vectors + 0.01 * np.random.default_rng(1).normal(size=vectors.shape)
    groups = kinrank.group(np.concatenate([vectors, copies]))
    assert score(np.tile(labels, 2), groups).ari > 0.9


@pytest.mark.long
def test_a_group_far_larger_than_the_others_is_one():
    random = np.random.default_rng(0)
    sizes = [400, *[3] * 2866, *[1] * 1000]
    labels = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = random.normal(size=(len(sizes), 64))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    groups = kinrank.group(centres[labels] + 0.1 * random.normal(size=(len(labels), 64)))
    largest = groups.labels[labels == 0]
    assert (largest == largest[0]).mean() > 0.99
    assert score(labels, groups).ari > 0.95
    assert score(labels, groups).bcubed_f > 0.95


def test_the_same_for_any_threads(faces, found):
    again = kinrank.group(faces[0], found.ids, threads=1)
    np.testing.assert_array_equal(again.labels, found.labels)


def test_noise_is_not_grouped():
    vectors = np.random.default_rng(0).normal(size=(300, 24))
    groups = kinrank.group(vectors)
    assert not groups.verdict.sure
    assert "cannot tell" in groups.verdict.text
    assert len(groups) == 300
    assert groups.candidates(0)


def test_strictness_is_a_slider(found):
    counts = [len(found.at(strictness)) for strictness in (0.0, 0.5, 1.0)]
    assert counts[0] <= counts[1] <= counts[2]
    np.testing.assert_array_equal(found.at(0.5).labels, found.labels)


def test_a_threshold_of_ones_own(faces):
    assert len(kinrank.group(faces[0], threshold=1.0)) == len(faces[0])
    assert len(kinrank.group(faces[0], threshold=0.0)) < 20


def test_reasons_of_a_group(found):
    number = int(found.numbers[0])
    group = found.describe(number)
    assert group.size == len(found.rows(number)) > 1
    assert 0 < group.weakest.strength <= group.cohesion <= 1
    assert found.group_of(group.weakest.one_id) == number
    assert found.group_of(group.weakest.other_id) == number
    assert group.nearest is None or group.nearest.number != number
    assert f"Group {number}" in str(group)
    single = found.describe(int(found.labels[found.singles[0]]))
    assert single.cohesion == 1.0
    assert "single item" in single.text


def test_reasons_of_pairs(found):
    rows = found.rows(0)
    together = found.why(found.ids[rows[0]], found.ids[rows[1]])
    assert together.together
    assert together.through[0] == found.ids[rows[0]]
    assert together.through[-1] == found.ids[rows[1]]
    apart = found.why(found.ids[rows[0]], found.ids[found.rows(1)[0]])
    assert not apart.together
    assert "are apart" in apart.text
    assert found.why("p0", "p0").text == "'p0' is one row."


def test_order_to_look_at_ends_with_singles(found):
    sizes = [len(found.rows(int(number))) for number in found.numbers]
    assert sorted(sizes, reverse=True).index(1) == sizes.index(1)
    assert len(set(found.numbers.tolist())) == len(found)


def test_corrections_keep_numbers_and_are_undone(found):
    groups = kinrank.Groups(found.found, found.tree, kinrank.Corrections(), found.labels)
    merged = groups.merge([0, 1])
    assert (merged.labels[groups.rows(1)] == 0).all()
    named = merged.name(0, "Anna").confirm(0)
    assert named.names == {0: "Anna"}
    assert named.confirmed == {0}
    assert named.describe(0).name == "Anna"
    first = named.ids[named.rows(0)[0]]
    removed = named.remove([first])
    assert len(removed.rows(removed.group_of(first))) == 1
    assert not removed.confirmed
    moved = removed.move([first], to=2)
    assert moved.group_of(first) == 2
    parts = [groups.ids[groups.rows(3)[:2]].tolist(), groups.ids[groups.rows(3)[2:]].tolist()]
    split = moved.split(3, parts)
    assert len(split.rows(3)) == 2
    assert split.group_of(parts[1][0]) not in (0, 1, 2, 3)
    back = split.undo().undo().undo()
    assert back.group_of(first) == back.group_of(groups.ids[groups.rows(0)[1]])
    assert "Anna" in back.names.values()


def test_corrections_last_over_a_new_run(faces, tmp_path):
    vectors, _ = faces
    path = tmp_path / "faces.jsonl"
    ids = [f"p{row}" for row in range(len(vectors))]
    groups = kinrank.group(vectors, ids, corrections=path)
    out = groups.ids[groups.members(0)[0]]
    groups = groups.remove([out]).merge([1, 2]).name(1, "Anna")
    kept = groups.ids[groups.rows(1)].tolist()
    stayed = groups.ids[groups.rows(0)].tolist()
    again = kinrank.group(vectors[::-1], ids[::-1], corrections=path)
    assert len({again.group_of(value) for value in kept}) == 1
    assert again.names == {again.group_of(kept[0]): "Anna"}
    assert all(again.group_of(out) != again.group_of(value) for value in stayed)


def test_two_people_correct_at_once(faces, tmp_path):
    path = tmp_path / "faces.jsonl"
    one = kinrank.group(faces[0], corrections=path)
    other = kinrank.group(faces[0], corrections=path)
    one = one.name(0, "Anna", author="one")
    other = other.name(1, "Ben", author="other")
    assert other.names == {0: "Anna", 1: "Ben"}
    one = one.refreshed()
    assert one.names == other.names
    assert one.refreshed() is one
    assert one.undo(author="one").names == {1: "Ben"}


def test_constraints_are_kept(faces):
    vectors, labels = faces
    photo = np.arange(len(vectors))
    photo[1] = photo[0]  # two faces of one photo, of one person
    groups = kinrank.group(vectors, constraints=Constraints(distinct={"photo": photo}))
    assert groups.labels[0] != groups.labels[1]
    far = int(np.flatnonzero(labels != labels[0])[0])
    groups = kinrank.group(vectors, constraints=Constraints(together=[(0, far)]))
    assert groups.labels[0] == groups.labels[far]


def answered(groups, labels, choose, count=15):
    """The groups after some questions, answered by the labels, and the last question."""
    groups = kinrank.Groups(groups.found, groups.tree, kinrank.Corrections(), groups.labels)
    for _ in range(count):
        questions = groups.questions(10_000)
        if not questions:
            break
        question = questions[choose(len(questions))]
        same = labels[question.one_id] == labels[question.other_id]
        groups = groups.answer(question, bool(same))
    return groups, question


def test_questions_put_right_what_is_wrong_sooner_than_random_ones():
    vectors, labels = people(noise=0.75, seed=3)
    groups = kinrank.group(vectors)
    before = score(labels, groups).ari
    first, question = answered(groups, labels, lambda count: 0)
    random = [
        answered(groups, labels, np.random.default_rng(seed).integers)[0] for seed in range(3)
    ]
    assert score(labels, first).ari > before
    assert score(labels, first).ari > max(score(labels, after).ari for after in random)
    assert "the same?" in str(question)


def test_questions_are_not_asked_again(found):
    groups = kinrank.Groups(found.found, found.tree, kinrank.Corrections(), found.labels)
    question = groups.questions(1)[0]
    groups = groups.answer(question, False)
    pairs = {frozenset((after.one_id, after.other_id)) for after in groups.questions(50)}
    assert frozenset((question.one_id, question.other_id)) not in pairs


def test_a_group_that_was_found_right_by_an_answer_is_not_asked_about_again():
    vectors, _ = people(noise=0.75, seed=3)
    groups = kinrank.group(vectors).at(0.0)
    asked = [question for question in groups.questions(1000) if question.one == question.other]
    assert asked
    for question in asked:
        groups = groups.answer(question, True)
    again = {frozenset(question.parts) for question in groups.questions(1000)}
    assert again.isdisjoint(frozenset(question.parts) for question in asked)


def test_later_rows_join_and_found(faces, found):
    vectors, _ = faces
    random = np.random.default_rng(5)
    again = vectors[:1] + 0.2 * random.normal(size=(1, 24)).astype(np.float32)
    stranger = 3 * random.normal(size=(1, 24)).astype(np.float32)
    groups = found.join(np.concatenate([again, stranger]), ["new", "stranger"])
    assert groups.group_of("new") == groups.group_of("p0")
    assert len(groups.rows(groups.group_of("stranger"))) == 1
    assert (
        groups.describe(groups.group_of("new")).size
        == found.describe(found.group_of("p0")).size + 1
    )
    with pytest.raises(kinrank.InvalidInputError, match="24 columns"):
        found.join(np.ones((1, 3)), ["x"])
    with pytest.raises(kinrank.InvalidInputError, match="got 'p0' more than once"):
        found.join(again, ["p0"])


def test_index_keeps_corrections_beside_its_file(faces, tmp_path):
    path = tmp_path / "faces.kinrank"
    kinrank.CAS(k1=10, k2=3).fit(faces[0]).save(path)
    groups = kinrank.open(path).groups().name(0, "Anna")
    assert (tmp_path / "faces.kinrank.corrections.jsonl").exists()
    assert kinrank.open(path).groups().names == groups.names


def test_one_row_and_equal_rows():
    one = kinrank.group([[1.0, 2.0]])
    assert one.labels.tolist() == [0]
    assert one.verdict.text == "There is one row."
    same = kinrank.group(np.ones((20, 4)))
    assert set(same.labels.tolist()) == {0}
    assert "All rows are equal" in same.verdict.text
    apart = kinrank.group(np.ones((3, 4)), constraints=Constraints(apart=[(0, 1)]))
    assert apart.labels[0] != apart.labels[1]


@pytest.mark.parametrize("n", [2, 3, 7, 9, 30])
def test_few_rows(n):
    groups = kinrank.group(np.random.default_rng(n).normal(size=(n, 5)))
    assert groups.labels.shape == (n,)
    groups.describe(int(groups.numbers[0]))


def test_one_column():
    with pytest.raises(kinrank.InvalidInputError, match="at least 2 columns"):
        kinrank.group(np.arange(20.0)[:, None] - 10.5)


def test_odd_calls_are_refused(found):
    with pytest.raises(kinrank.InvalidInputError, match="There is no group 9999"):
        found.describe(9999)
    with pytest.raises(kinrank.UnknownIdError, match="the id 'nobody'"):
        found.why("p0", "nobody")
    with pytest.raises(kinrank.InvalidInputError, match="two or more groups"):
        found.merge([0, 0])
    with pytest.raises(kinrank.InvalidInputError, match="rows of group 0"):
        found.split(0, [[found.ids[found.rows(1)[0]]]])
    for parts in ([], [[]]):
        with pytest.raises(kinrank.InvalidInputError, match="`parts` must name at least one row"):
            found.split(0, parts)
    with pytest.raises(kinrank.InvalidInputError, match="`question` must be"):
        found.answer("p0", same=True)
    with pytest.raises(kinrank.InvalidInputError, match="leave rows in their groups"):
        found.remove(found.ids[found.rows(0)].tolist())
    with pytest.raises(kinrank.InvalidInputError, match="`strictness`"):
        found.at(2)
    with pytest.raises(kinrank.InvalidInputError, match="no correction"):
        found.undo(author="nobody")
    with pytest.raises(kinrank.InvalidInputError, match="different from each other"):
        kinrank.group(np.eye(3), ["a", "a", "b"])
    with pytest.raises(kinrank.InvalidInputError, match=r"kinrank\.Constraints"):
        kinrank.group(np.eye(3), constraints=[("a", "b")])


def test_records_of_all_rows(found):
    records = found.to_records()
    assert len(records) == len(found.labels)
    assert records[0].keys() == {"id", "group", "name", "size", "single", "confirmed"}
    assert sum(record["single"] for record in records) == len(found.singles)


def test_near_duplicates_keep_the_most_central():
    random = np.random.default_rng(0)
    rows = random.normal(size=(30, 16))
    copies = rows[4] + 0.01 * random.normal(size=(3, 16))
    found = kinrank.near_duplicates(np.concatenate([rows, copies]), threads=1)
    assert len(found) == 1
    assert set(found.sets[0]) == {4, 30, 31, 32}
    assert len(found.drop) == 3
    assert found.keep == (found.sets[0][0],)
    assert len(found.pairs) == 6
    assert (np.diff(found.similarities) <= 0).all()
    with pytest.raises(kinrank.InvalidInputError, match="`similarity`"):
        kinrank.near_duplicates(rows, similarity=0)


def test_a_chain_of_small_steps_is_no_set():
    angles = np.linspace(0, np.pi / 2, 12)
    found = kinrank.near_duplicates(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    assert max(map(len, found.sets)) < 4
