"""Records that are damaged at random: what comes of them is what an undisturbed run gives, or it is
refused, or the loss is told, each in one line. Never another number in silence."""

import random
import shutil
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from conftest import small
from recorded_runs import PlugPulledError, assert_same, histories, lanes_of, record, run_world
from skerry.engine.world import build_world
from skerry.errors import RecordsError, SkerryWarning
from skerry.records.store import FILE, Store

PAGE = 4096
ROUNDING = 1e-4
"""Lanes of which some start anew run in other stacks."""


@dataclass(frozen=True)
class Study:
    folder: Path
    lanes: tuple
    whole: dict
    """Its histories when nothing disturbs it."""
    runs: tuple = ()

    @property
    def checkpoint(self):
        [file] = (self.folder / "checkpoints").glob("*.safetensors")
        return file


def stopped(folder, lanes, after):
    """Stopped within a round, and copied as a kill would leave it: with what SQLite has not yet
    put in its place."""
    world = build_world(lanes[0])

    def progress(moment):
        if moment.phase == "before_server" and moment.round > after:
            shutil.copytree(folder / "live", folder / f"round-{after}")
            raise PlugPulledError

    with Store.open(folder / "live") as store, pytest.raises(PlugPulledError):
        run_world(
            world,
            lanes,
            store,
            folder / "live" / "checkpoints",
            on_moment=progress,
            checkpoint_seconds=0,
        )
    return folder / f"round-{after}"


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """The same study stopped early and late, another one, and one that is finished."""
    found = {}
    for name, seed in (("mine", 0), ("other", 1)):
        folder = tmp_path_factory.mktemp(name)
        lanes = tuple(lanes_of(small(f"seed={seed}", "rounds=9")))
        whole = record(folder / "whole", lanes)
        found[name] = Study(stopped(folder, lanes, 6), lanes, whole)
        if name == "mine":
            found["early"] = Study(stopped(folder / "again", lanes, 3), lanes, whole)
            with Store.read(folder / "whole") as store:
                found["finished"] = Study(folder / "whole", lanes, whole, tuple(store.runs()))
    return found


# What is done to files


def flip(draw, file):
    content = bytearray(file.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def blot(draw, file):
    """A sector of zeros, or of noise."""
    content = bytearray(file.read_bytes())
    size = min(512, len(content) // 4)
    place = draw.randrange(len(content) - size)
    content[place : place + size] = bytes(size) if draw.random() < 0.5 else draw.randbytes(size)
    file.write_bytes(content)


def cut(draw, file):
    content = file.read_bytes()
    file.write_bytes(content[: draw.randrange(len(content))])


DAMAGES = (flip, flip, blot, cut)


def damage_checkpoint(draw, folder, studies):
    [file] = (folder / "checkpoints").glob("*.safetensors")
    draw.choice(DAMAGES)(draw, file)


def damage_store(draw, folder, studies):
    files = [path for path in folder.glob(f"{FILE}*") if path.suffix != ".sqlite-shm"]
    draw.choice(DAMAGES)(draw, draw.choice([file for file in files if file.stat().st_size]))


def swap_checkpoint(draw, folder, studies):
    """For one of another study under this one's name, or of an earlier round."""
    [file] = (folder / "checkpoints").glob("*.safetensors")
    shutil.copy(studies[draw.choice(["other", "early"])].checkpoint, file)


def swap_store(draw, folder, studies):
    """For an older copy, or another study's."""
    for path in folder.glob(f"{FILE}*"):
        path.unlink()
    for path in studies[draw.choice(["other", "early"])].folder.glob(f"{FILE}*"):
        shutil.copy(path, folder / path.name)


ON_RUNNING = (damage_checkpoint, damage_store, swap_checkpoint, swap_store)
WEIGHTS = (6, 6, 1, 1)


# What comes of it


def outcome_of(read, whole):
    """In a word. What is given without a word must be the same bit for bit."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            found = read()
        except RecordsError as error:
            refusal = error
        else:
            refusal = None
    told = [str(one.message) for one in heard if issubclass(one.category, SkerryWarning)]
    assert not any("\n" in line for line in [*told, str(refusal)])
    if refusal is not None:
        return "refused"
    if not told:
        assert_same(found, whole)
        return "as undisturbed"
    assert found.keys() <= whole.keys()
    assert_same(found, {key: whole[key] for key in found}, ROUNDING)
    return "told"


def resumed(folder, study):
    """Of this study alone: a store that was swapped holds others."""
    found = record(folder, study.lanes)
    return {key: found[key] for key in study.whole}


def looked_at(folder, study):
    """With all that is told of the runs besides their histories."""
    with Store.read(folder) as store:
        assert all(run in study.runs for run in store.runs())
    return histories(folder)


def campaign(count, seed, studies, tmp_path, counts):
    draw = random.Random(seed)
    ends = Counter()
    for number in range(count):
        folder = tmp_path / str(number)
        if number % 4 == 3:
            study, spoil, read = studies["finished"], damage_store, looked_at
        else:
            study, read = studies["mine"], resumed
            [spoil] = draw.choices(ON_RUNNING, WEIGHTS)
        shutil.copytree(study.folder, folder)
        spoil(draw, folder, studies)
        word = outcome_of(partial(read, folder, study), study.whole)
        ends[word] += 1
        shutil.rmtree(folder)
    told = ", ".join(f"{times} {word}" for word, times in ends.most_common())
    counts(f"damaged records: {count}: {told}, 0 wrong in silence")
    return ends


def test_damaged_records_are_never_wrong_in_silence(studies, tmp_path, counts):
    assert sum(campaign(24, 1, studies, tmp_path, counts).values()) == 24


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_damaged_records_are_never_wrong_in_silence(studies, tmp_path, counts, seed):
    assert sum(campaign(100, seed, studies, tmp_path, counts).values()) == 100


@pytest.mark.slow
def test_a_flipped_bit_in_any_byte_of_a_store_is_never_read_as_a_number(studies, tmp_path, counts):
    """One bit of a byte, wherever it lies."""
    study = studies["finished"]
    content = (study.folder / FILE).read_bytes()
    draw = random.Random(0)
    ends = Counter()
    # All of the first page, which says what the tables are; then one byte of seven.
    places = [*range(PAGE), *range(PAGE, len(content), 7)]
    for place in places:
        spoiled = bytearray(content)
        spoiled[place] ^= 1 << draw.randrange(8)
        (tmp_path / FILE).write_bytes(spoiled)
        ends[outcome_of(partial(looked_at, tmp_path, study), study.whole)] += 1
    told = ", ".join(f"{times:,} {word}" for word, times in ends.most_common())
    counts(f"flipped bits of a store: {len(places):,}: {told}, 0 read as other numbers")
    assert ends["refused"] + ends["told"] > ends["as undisturbed"] / 10
